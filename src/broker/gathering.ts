import { type Feed, MAX_TAKEN_BYTES } from './feed.ts'
import type { Waiter, Wanted } from './waiters.ts'

/**
 * What a fetch waits for, and how long, beyond the time that its client named (architecture §4.4):
 *
 * - nothing is here for it: for a consumer that begins, or work that the ledger knows of (`bridgeMs`);
 * - something is here, but a queue or a job that goes before it is on its way (`isPreceded`), looked at
 *   every `PRECEDENCE_MS`;
 * - something is here, but not all that it wants, and more is available (`awaitedFeeds`): a first time
 *   for the rest of the burst (`beginLingering`), then as long as consumers may bring it (`nextLookMs`).
 *
 * What waits and what it waits for are `Waiter` and `Feed`; `FetchLine` asks.
 */

/** How long a fetch waits for a message that is probably on its way (architecture §4.4). */
const BRIDGE_MS = 250
/**
 * The same for a consumer that has to be registered first, in a queue where the ledger knows of
 * work: on a busy machine 250 ms are sometimes too short for both, and `[]` would be wrong.
 */
const START_MS = 1_000
/** A waiter that wants more than has come gives the rest of the same burst this long. */
const LINGER_MS = 1
/** How often a delivery looks whether a queue that goes before its own has begun to deliver. */
export const PRECEDENCE_MS = 5
/** How long a fetch that could have some of what it wants waits for the rest. */
export const GATHERING_MS = 100

/** For a fetch that does not want to wait; 0: there is nothing to wait for. */
export function bridgeMs(feed: Feed, hasWork: boolean): number {
  const isStarting = feed.exists ? feed.isStarting : feed.isLookedUp
  if (isStarting) return hasWork ? START_MS : BRIDGE_MS
  return feed.exists && hasWork ? BRIDGE_MS : 0
}

/**
 * Queues are served from left to right, and each by priority: a delivery of `queue` waits while the
 * ledger knows of work that goes before it and may be on its way to us. Bounded by `Feed`.
 * `feedOf`: undefined where nothing of a queue may be served.
 */
export function isPreceded(
  wanted: Pick<Wanted, 'queues' | 'since' | 'hasClaimable'>,
  queue: string,
  feedOf: (queue: string) => Feed | undefined,
): boolean {
  for (const earlier of wanted.queues) {
    const feed = feedOf(earlier)
    const isLast = earlier === queue
    const isAwaited = isLast ? feed?.expectsBetter(wanted.since) : feed?.isAwaited(wanted.since)
    if (isAwaited && feed?.exists && wanted.hasClaimable(earlier)) return true
    if (isLast) return false
  }
  return false
}

const NOBODY: readonly Feed[] = []

/**
 * Consumers of ours may bring more for this fetch, of these queues: it has some of what it wants, or
 * could have it from here, and the ledger knows of more. Seed 001 §7.3 lets an answer have fewer jobs
 * only where fewer are available. `feedOf`: undefined where nothing of a queue may be served.
 */
export function awaitedFeeds(
  wanted: Pick<Wanted, 'queues' | 'count' | 'since' | 'hasClaimable' | 'takenBytes'>,
  feedOf: (queue: string) => Feed | undefined,
): readonly Feed[] {
  let awaited: Feed[] | null = null
  let count = 0
  let bytes = wanted.takenBytes ?? 0
  for (const queue of wanted.queues) {
    const feed = feedOf(queue)
    if (feed === undefined) continue
    count += feed.buffer.size
    // Nearly every fetch ends here.
    if (count >= wanted.count) return NOBODY
    bytes += feed.buffer.bytes
    if (bytes >= MAX_TAKEN_BYTES) return NOBODY
    if (!nourishForMore(wanted, feed)) continue
    if (awaited === null) awaited = [feed]
    else awaited.push(feed)
  }
  const isSome = count > 0 || wanted.takenBytes !== undefined
  return isSome && awaited !== null ? awaited : NOBODY
}

/**
 * Opens a consumer where the others are full. While jobs of the queue are leased, only what is sure
 * to come counts: workers that come again and again are faster with what is here.
 */
function nourishForMore(
  { count, since, hasClaimable }: Pick<Wanted, 'count' | 'since' | 'hasClaimable'>,
  feed: Feed,
): boolean {
  if (!hasClaimable(feed.queue, feed.buffer.size)) return false
  if (!feed.exists) return feed.isLookedUp
  feed.nourish(count)
  if (feed.isSilent) return false
  return feed.mayReceive && (feed.inUse === 0 || feed.isGrowing || feed.expectsMore(since))
}

/**
 * How long the rest of a burst is waited for, from now on. Once: who comes meanwhile takes what is
 * here, and where others fetch all the time, a waiter that let them each time would get nothing.
 */
export function beginLingering(waiter: Waiter | undefined, here: number): number {
  if (waiter === undefined || waiter.hasLingered || here >= waiter.count) return 0
  waiter.hasLingered = true
  return LINGER_MS
}

/**
 * Begins to put a fetch off for these, or goes on with it: how soon to look again; 0: what is here is
 * handed out now. Bounded, since what the ledger takes for available may be with others; and where it
 * was, the next ones do not wait.
 */
export function nextLookMs(waiter: Waiter, awaited: readonly Feed[], now: number): number {
  if (awaited.length === 0) return 0
  waiter.putOffSince ??= now
  const isStarting = (feed: Feed) => feed.isGrowing || feed.isLookedUp
  const atMostMs = awaited.some(isStarting) ? START_MS : GATHERING_MS
  // Each of its queues with something in it looks at all of them.
  const lookMs = Math.max(LINGER_MS, waiter.queues.length / 2)
  if (now - waiter.putOffSince < atMostMs) return lookMs
  // What has not begun yet has brought nothing for another reason.
  for (const feed of awaited) if (!isStarting(feed)) feed.gatheredInVain()
  return 0
}
