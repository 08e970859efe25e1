import type { Feed } from './feed.ts'
import type { Wanted } from './waiters.ts'

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
