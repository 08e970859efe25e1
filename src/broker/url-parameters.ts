interface Parameter {
  least: number
  most: number
  /** 0 is "no limit of ours" in AMQP. */
  mayBeZero: boolean
  /** Why not less or more. */
  why: string
}

/**
 * What amqplib reads of a URL's query. It takes no notice of any other name, and so would whoever has
 * misspelt one, or written what another client understands.
 */
export const OF_GATEWAY: Readonly<Record<string, Parameter>> = {
  // Each side gives up a silent peer after two to three of them.
  heartbeat: {
    least: 1,
    most: 300,
    mayBeZero: false,
    why: 'seconds; without heartbeats, or with rare ones, a connection that the network has lost without a word stays, and nothing comes over it',
  },
  // Measured: 14, and one per consumer of a queue that is fetched from.
  channelMax: {
    least: 16,
    most: 65_535,
    mayBeZero: true,
    why: 'a gateway has some 14 channels, and one more per consumer of a queue that is fetched from',
  },
  // Headers go in one frame, of which amqplib fills up to 64 KiB with them.
  frameMax: {
    least: 65_536,
    most: 2 ** 32 - 1,
    mayBeZero: true,
    why: 'RabbitMQ ends the connection of who sends headers that are larger than a frame',
  },
}

/** A native worker or producer lives with fewer channels. */
export const OF_CLIENT: typeof OF_GATEWAY = {
  ...OF_GATEWAY,
  channelMax: { least: 1, most: 65_535, mayBeZero: true, why: "AMQP's own limit" },
}

/** Why the query of this URL cannot be meant, or does not work. */
export function parameterMistakes({ search, searchParams }: URL, of: typeof OF_GATEWAY): string[] {
  return [...searchParams].flatMap(([name, value]) => {
    const parameter = Object.hasOwn(of, name) ? of[name] : undefined
    if (parameter !== undefined) return isWithin(parameter, value) ? [] : [ruleOf(name, parameter)]
    // With an @ it is the rest of a password that has a question mark in it.
    const shown = search.includes('@') ? '' : ` '${name.slice(0, 40)}'`
    return [`unknown parameter${shown}; there are ${Object.keys(of).join(', ')}`]
  })
}

function isWithin({ least, most, mayBeZero }: Parameter, text: string): boolean {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  return (value >= least && value <= most) || (mayBeZero && value === 0)
}

function ruleOf(name: string, { least, most, mayBeZero, why }: Parameter): string {
  const orZero = mayBeZero ? ', or 0' : ''
  return `${name} must be an integer from ${least} to ${most}${orZero} (${why})`
}
