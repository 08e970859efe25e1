/** Can an existing queue drop messages without a trace? Found by comparing its arguments. */
import { actualIn, classify } from '../connection/channel-error.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { QueueEntity } from './topology.ts'

/** Each round finds one difference, and a queue has fewer arguments. */
const MAX_ROUNDS = 20
/**
 * Makes the declare of a queue that does not exist invalid (406), so that comparing never creates one. RabbitMQ
 * compares an existing queue before it validates, and not by this argument (3.10.8).
 */
const GUARD = 'x-queue-leader-locator'

/** A queue as it exists. */
interface Found {
  durable: boolean
  autoDelete: boolean
  arguments: Readonly<Record<string, unknown>>
}

/**
 * Why an existing job queue can drop messages without a trace, in words; null: no reason is known. That is also
 * the answer where we may not declare, and so cannot compare. Rejects when RabbitMQ cannot be asked.
 *
 * What RabbitMQ drops is known only by its copy in `ojs.system.dead-letters`. Policies cannot be seen over
 * AMQP 0-9-1, but what they drop leaves the same copy, if the queue has our dead letter exchange.
 */
export async function lossOf(scratch: ScratchChannel, wanted: QueueEntity): Promise<string | null> {
  return lossIn(await find(scratch, wanted), wanted)
}

/**
 * Finds the queue's arguments: declares it again and again, each time with the value that RabbitMQ named as
 * the difference. Arguments that were not found are ours.
 */
async function find(scratch: ScratchChannel, wanted: QueueEntity): Promise<Found> {
  const found = { durable: true, autoDelete: false, arguments: new Map<string, unknown>() }
  for (const [name, value] of Object.entries(wanted.arguments)) found.arguments.set(name, value)
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const difference = await compare(scratch, wanted.name, found)
    if (difference === null || difference.argument === GUARD) break
    const { argument, value } = difference
    if (argument === 'durable') found.durable = value === true
    else if (argument === 'auto_delete') found.autoDelete = value === true
    else if (value === undefined) found.arguments.delete(argument)
    else found.arguments.set(argument, value)
  }
  return { ...found, arguments: Object.fromEntries(found.arguments) }
}

/** The first difference; null: there is none, or it cannot be found. */
async function compare(
  scratch: ScratchChannel,
  name: string,
  {
    durable,
    autoDelete,
    arguments: given,
  }: Omit<Found, 'arguments'> & { arguments: Map<string, unknown> },
): Promise<ReturnType<typeof actualIn>> {
  const declared = { ...Object.fromEntries(given), [GUARD]: 'compare-only' }
  try {
    await scratch.run((channel) =>
      channel.assertQueue(name, { durable, autoDelete, arguments: declared }),
    )
    return null
  } catch (error) {
    const failure = classify(error)
    if (failure.kind === 'unavailable') throw error
    return failure.kind === 'differs' ? actualIn(failure.text) : null
  }
}

/** Exported for tests. */
export function lossIn(found: Found, wanted: QueueEntity): string | null {
  const { arguments: given } = found
  if (given['x-queue-type'] === 'stream')
    return 'it is a stream, in which jobs are not acknowledged one by one'
  // A queue that deletes itself takes waiting jobs with it, among them those that no gateway has seen.
  if (given['x-expires'] !== undefined)
    return `it deletes itself when it is unused for ${given['x-expires']} ms (x-expires)`
  if (found.autoDelete) return 'it deletes itself with its last consumer (auto-delete)'
  const drops = dropsIn(given)
  if (drops === null || leadsToUs(given, wanted)) return null
  const exchange = given['x-dead-letter-exchange']
  const to = exchange === undefined ? 'nowhere' : `to exchange '${exchange}'`
  return `${drops}, and what it drops goes ${to} instead of to exchange '${wanted.arguments['x-dead-letter-exchange']}'`
}

function dropsIn(given: Found['arguments']): string | null {
  const ttl = given['x-message-ttl']
  if (ttl !== undefined) return `its messages expire after ${ttl} ms (x-message-ttl)`
  const limit = ['x-max-length', 'x-max-length-bytes'].find((name) => given[name] !== undefined)
  const isRejecting = String(given['x-overflow']).startsWith('reject-publish')
  if (limit !== undefined && !isRejecting)
    return `it drops its oldest message beyond ${limit} ${given[limit]}`
  const returns = given['x-delivery-limit']
  if (typeof returns === 'number' && returns >= 0 && returns < MANY_RETURNS)
    return `it drops a message that was returned ${returns} times (x-delivery-limit)`
  return null
}

/** Our own limit is a million, which means none. */
const MANY_RETURNS = 100_000

/** Without a routing key of its own, a dead message keeps that by which it came: the queue's name. */
function leadsToUs(given: Found['arguments'], { arguments: ours }: QueueEntity): boolean {
  const [exchange, key] = ['x-dead-letter-exchange', 'x-dead-letter-routing-key'] as const
  return given[exchange] === ours[exchange] && (given[key] ?? ours[key]) === ours[key]
}
