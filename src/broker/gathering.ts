import { type Feed, MAX_TAKEN_BYTES } from './feed.ts'
import type { Waiter, Wanted } from './waiters.ts'

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
    // Nearly every fetch ends here; the sum of the bytes is one over all that is in the buffer.
    if (count >= wanted.count) return NOBODY
    bytes += feed.buffer.bytes
    if (bytes >= MAX_TAKEN_BYTES) return NOBODY
    if (!mayBring(wanted, feed)) continue
    if (awaited === null) awaited = [feed]
    else awaited.push(feed)
  }
  const isSome = count > 0 || wanted.takenBytes !== undefined
  return isSome && awaited !== null ? awaited : NOBODY
}

/**
 * While jobs of the queue are leased, only what is sure to come: workers that come again and again
 * are faster with what is here.
 */
function mayBring(
  { count, since, hasClaimable }: Pick<Wanted, 'count' | 'since' | 'hasClaimable'>,
  feed: Feed,
): boolean {
  if (!hasClaimable(feed.queue, feed.buffer.size)) return false
  if (!feed.exists) return feed.isLookedUp
  feed.nourish(count)
  return feed.mayReceive && (feed.inUse === 0 || feed.isGrowing || feed.expectsMore(since))
}

/**
 * How long the rest of a burst is waited for. Once: who comes meanwhile takes what is here, and where
 * others fetch all the time, a waiter that let them each time would get nothing.
 */
export function lingerMs(waiter: Waiter | undefined, here: number): number {
  if (waiter === undefined || waiter.hasLingered || here >= waiter.count) return 0
  waiter.hasLingered = true
  return LINGER_MS
}

/**
 * How soon to look again at a fetch that waits for these; 0: what is here is handed out now. Bounded,
 * since what the ledger takes for available may be with others; and where it was, the next ones do not
 * wait.
 */
export function putOffMs(waiter: Waiter, awaited: readonly Feed[], now: number): number {
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
