/** How long a fetch waits beyond its own `wait_ms`, and for what (docs/architecture.md §4.4). */
import { MAX_TAKEN_BYTES, type QueueConsumer } from './queue-consumer.ts'
import type { Waiter, Wanted } from './waiter.ts'

/**
 * What a fetch waits for, and how long, beyond the time that its client asked for (docs/architecture.md
 * §4.4):
 *
 * - Nothing is buffered: a consumer that starts, or work that the ledger knows of (`bridgeMs`).
 * - Something is buffered, but a job that goes before it, of its queue or an earlier one, is on its way
 *   (`isPreceded`); checked every `PRECEDENCE_MS`.
 * - Something is buffered, but less than it wants, and more is available (`awaitedFeeds`): first the rest of
 *   the burst (`beginLingering`), then what consumers may bring (`nextLookMs`).
 *
 * The state is in `Waiter` and `QueueConsumer`; `WaitingFetches` calls these functions.
 */

/** How long a fetch waits for a message that is probably on its way (docs/architecture.md §4.4). */
const BRIDGE_MS = 250
/**
 * The same when a consumer must be registered first and the ledger knows of work in the queue: on a busy
 * machine 250 ms are sometimes too short for both, and `[]` would be wrong.
 */
const START_MS = 1_000
/** How long a waiter that wants more waits for the rest of the same burst. */
const LINGER_MS = 1
/** How often a waiting delivery checks whether an earlier queue has begun to deliver. */
export const PRECEDENCE_MS = 5
/** How long a fetch that could have some of what it wants waits for the rest. */
export const GATHERING_MS = 100

/** For a fetch that does not long-poll. 0: there is nothing to wait for. */
export function bridgeMs(queueConsumer: QueueConsumer, hasWork: boolean): number {
  const isStarting = queueConsumer.exists ? queueConsumer.isStarting : queueConsumer.isLookedUp
  if (isStarting) return hasWork ? START_MS : BRIDGE_MS
  return queueConsumer.exists && hasWork ? BRIDGE_MS : 0
}

/**
 * Queues are served from left to right, and each by priority: true while a delivery of `queue` must wait,
 * because the ledger knows of work that goes before it and may be on its way to us. `QueueConsumer` bounds the wait.
 * `queueConsumerOf`: undefined when nothing of a queue may be served.
 */
export function isPreceded(
  wanted: Pick<Wanted, 'queues' | 'since' | 'hasClaimable'>,
  queue: string,
  queueConsumerOf: (queue: string) => QueueConsumer | undefined,
): boolean {
  for (const earlier of wanted.queues) {
    const queueConsumer = queueConsumerOf(earlier)
    const isLast = earlier === queue
    const isAwaited = isLast
      ? queueConsumer?.expectsBetter(wanted.since)
      : queueConsumer?.isAwaited(wanted.since)
    if (isAwaited && queueConsumer?.exists && wanted.hasClaimable(earlier)) return true
    if (isLast) return false
  }
  return false
}

const NOBODY: readonly QueueConsumer[] = []

/**
 * Those queueConsumers whose consumers may bring more for this fetch. None unless it has, or could have from the
 * buffers, some of what it wants, and the ledger knows of more: seed 001 §7.3 lets an answer have fewer jobs
 * only when fewer are available. `queueConsumerOf`: undefined when nothing of a queue may be served.
 */
export function awaitedFeeds(
  wanted: Pick<Wanted, 'queues' | 'count' | 'since' | 'hasClaimable' | 'takenBytes'>,
  queueConsumerOf: (queue: string) => QueueConsumer | undefined,
): readonly QueueConsumer[] {
  let awaited: QueueConsumer[] | null = null
  let count = 0
  let bytes = wanted.takenBytes ?? 0
  for (const queue of wanted.queues) {
    const queueConsumer = queueConsumerOf(queue)
    if (queueConsumer === undefined) continue
    count += queueConsumer.buffer.size
    // Nearly every fetch ends here.
    if (count >= wanted.count) return NOBODY
    bytes += queueConsumer.buffer.bytes
    if (bytes >= MAX_TAKEN_BYTES) return NOBODY
    if (!nourishForMore(wanted, queueConsumer)) continue
    if (awaited === null) awaited = [queueConsumer]
    else awaited.push(queueConsumer)
  }
  const isSome = count > 0 || wanted.takenBytes !== undefined
  return isSome && awaited !== null ? awaited : NOBODY
}

/**
 * Opens a consumer when the others are full. True: the queueConsumer may bring more. While jobs of the queue are
 * leased, only what is sure to come counts: workers that fetch again and again are faster with what is
 * buffered.
 */
function nourishForMore(
  { count, since, hasClaimable }: Pick<Wanted, 'count' | 'since' | 'hasClaimable'>,
  queueConsumer: QueueConsumer,
): boolean {
  if (!hasClaimable(queueConsumer.queue, queueConsumer.buffer.size)) return false
  if (!queueConsumer.exists) return queueConsumer.isLookedUp
  queueConsumer.nourish(count)
  if (queueConsumer.isSilent) return false
  return (
    queueConsumer.mayReceive &&
    (queueConsumer.inUse === 0 || queueConsumer.isGrowing || queueConsumer.expectsMore(since))
  )
}

/**
 * How long to wait from now on for the rest of a burst. Once per waiter: fetches that come meanwhile take
 * what is buffered, so a waiter that waited each time could get nothing where others fetch all the time.
 */
export function beginLingering(waiter: Waiter | undefined, buffered: number): number {
  if (waiter === undefined || waiter.hasLingered || buffered >= waiter.count) return 0
  waiter.hasLingered = true
  return LINGER_MS
}

/**
 * Puts a fetch off for these queueConsumers: returns how soon to look again; 0: hand out what is buffered now.
 * Bounded, because other consumers may hold the jobs that the ledger calls available; if so, later fetches do
 * not wait for them.
 */
export function nextLookMs(waiter: Waiter, awaited: readonly QueueConsumer[], now: number): number {
  if (awaited.length === 0) return 0
  waiter.putOffSince ??= now
  // Of a shared queue the ledger also counts jobs that others hold.
  const isStarting = (queueConsumer: QueueConsumer) =>
    !queueConsumer.isShared && (queueConsumer.isGrowing || queueConsumer.isLookedUp)
  const atMostMs = awaited.some(isStarting) ? START_MS : GATHERING_MS
  // Each of its queues with buffered deliveries triggers a look at all of them.
  const lookMs = Math.max(LINGER_MS, waiter.queues.length / 2)
  if (now - waiter.putOffSince < atMostMs) return lookMs
  // A queueConsumer that is still starting has brought nothing for another reason.
  for (const queueConsumer of awaited)
    if (!isStarting(queueConsumer)) queueConsumer.gatheredInVain()
  return 0
}
