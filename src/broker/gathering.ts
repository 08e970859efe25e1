import type { Feed } from './feed.ts'
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
const GATHERING_MS = 100

/** For a fetch that does not want to wait; 0: there is nothing to wait for. */
export function bridgeMs(feed: Feed | undefined, isLookedUp: boolean, hasWork: boolean): number {
  const isStarting = feed?.exists ? feed.isStarting : isLookedUp
  if (isStarting) return hasWork ? START_MS : BRIDGE_MS
  return feed?.exists && hasWork ? BRIDGE_MS : 0
}

/**
 * Some of what a fetch wants is here, the ledger knows of more, and a consumer of ours may bring it:
 * seed 001 §7.3 lets an answer have fewer jobs only where fewer are available. Not while jobs of the
 * queue are leased: workers that come again and again are faster with what is here.
 */
export function isGathering(wanted: Pick<Wanted, 'count' | 'hasClaimable'>, feed: Feed): boolean {
  const { buffer, exists, queue } = feed
  if (!exists || buffer.size === 0 || !feed.isShortOf(wanted.count)) return false
  // Sums up over all consumers: last, since nearly every fetch has ended here before.
  if (!wanted.hasClaimable(queue, buffer.size) || feed.inUse > 0) return false
  feed.nourish(wanted.count)
  return feed.mayReceive
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
 * How soon to look again at a fetch that waits; 0: what is here is handed out now. Bounded, since
 * what the ledger takes for available may be with others; and where it was, the next ones do not wait.
 */
export function putOffMs(waiter: Waiter, feed: Feed, now: number): number {
  if (!isGathering(waiter, feed)) return 0
  waiter.putOffSince ??= now
  if (now - waiter.putOffSince < GATHERING_MS) return LINGER_MS
  feed.gatheredInVain()
  return 0
}
