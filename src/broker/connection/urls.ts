/** AMQP URLs: which are valid, which parameters they take, which name one cluster. */
import { unescape as decode } from 'node:querystring'

/**
 * Stricter than `URL`, which accepts a lone % in user and password that `decodeURIComponent` throws on. An
 * unescaped / or # in a password ends the host: what precedes it would be shown as the host, the rest as a
 * virtual host.
 */
export function isAmqpUrl(text: string): boolean {
  if (!/^amqps?:\/\//i.test(text)) return false
  try {
    const { username, password, pathname, hash } = new URL(text)
    decodeURIComponent(username)
    decodeURIComponent(password)
    return hash === '' && (username !== '' || !pathname.includes('@'))
  } catch {
    return false
  }
}

/** As amqplib reads it: a URL without a virtual host means `/`. */
export function virtualHostOf({ pathname }: URL): string {
  return decode(pathname.slice(1)) || '/'
}

/**
 * Why these URLs cannot be the hosts of one cluster; null when they can. Another virtual host has other
 * queues: after a failover the gateway would find none of its messages, publish all waiting jobs again, and
 * workers of both would run them. Shows no part of a URL: any part may be a password.
 */
export function notOneCluster(urls: readonly URL[]): string | null {
  if (new Set(urls.map(virtualHostOf)).size > 1) {
    return 'names several virtual hosts; all its URLs must name the same one'
  }
  if (new Set(urls.map(({ protocol }) => protocol)).size > 1) {
    return 'mixes amqp:// and amqps://; all its URLs must use the same of the two'
  }
  return null
}

interface Parameter {
  least: number
  most: number
  /** In AMQP, 0 means that this side sets no limit. */
  mayBeZero: boolean
  /** Reason of the limits. */
  why: string
}

/**
 * The parameters that amqplib reads from a URL's query. amqplib ignores any other name silently, so that a
 * misspelt parameter, or one of another client, would have no effect.
 */
export const OF_GATEWAY: Readonly<Record<string, Parameter>> = {
  // Each side gives up a silent peer after two to three heartbeats.
  heartbeat: {
    least: 1,
    most: 300,
    mayBeZero: false,
    why: 'seconds; with rare heartbeats, or none, a dead connection is noticed too late',
  },
  // Measured: 14, and one per consumer of a queue that is fetched from.
  channelMax: {
    least: 16,
    most: 65_535,
    mayBeZero: true,
    why: 'a gateway opens about 14 channels, and one more per consumer of a queue that is fetched from',
  },
  // Headers must fit in one frame, and amqplib writes up to 64 KiB of them.
  frameMax: {
    least: 65_536,
    most: 2 ** 32 - 1,
    mayBeZero: true,
    why: 'RabbitMQ closes the connection when the headers of a message do not fit into one frame',
  },
}

/** A native worker or producer needs fewer channels. */
export const OF_CLIENT: typeof OF_GATEWAY = {
  ...OF_GATEWAY,
  channelMax: { least: 1, most: 65_535, mayBeZero: true, why: "AMQP's own limit" },
}

/** Why the query of this URL cannot be intended, or does not work. */
export function parameterMistakes(
  { search, searchParams }: URL,
  allowed: typeof OF_GATEWAY,
): string[] {
  return [...searchParams].flatMap(([name, value]) => {
    const parameter = Object.hasOwn(allowed, name) ? allowed[name] : undefined
    if (parameter !== undefined) return isWithin(parameter, value) ? [] : [ruleOf(name, parameter)]
    // A query with an @ is the rest of a password that contains a question mark.
    const shown = search.includes('@') ? '' : ` '${name.slice(0, 40)}'`
    return [`unknown parameter${shown}; the known ones are ${Object.keys(allowed).join(', ')}`]
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
