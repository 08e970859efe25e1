/** Discards jobs whose `expires_at` has passed before they ran. */
import type { Deps } from '../operations/deps.ts'
import { followNews } from '../operations/job-end.ts'
import { isUnsent } from '../operations/job-messages/send.ts'
import { Loop } from './loop.ts'

const INTERVAL_MS = 200
const PAGE = 500

/**
 * Discards jobs whose `expires_at` passed before they ran; their job messages are dropped when they arrive.
 */
export function expiry(deps: Deps): Loop {
  return new Loop({
    name: 'expiry',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: () => expireOnce(deps),
  })
}

/**
 * Returns true if there may be more. Discards nothing before the control backlog is consumed: a job that
 * seems to wait may have run on a native worker, and its report is still in there (docs/architecture.md §2,
 * "Restart").
 */
async function expireOnce(deps: Deps): Promise<boolean> {
  const { broker, clock, ledger } = deps
  if (!broker.controlBacklogConsumed()) return false
  const expired = await ledger.expire({ now: clock.now(), wall: clock.wall(), limit: PAGE })
  for (const discarded of expired) {
    const { job, news } = discarded
    if (news !== undefined) followNews(deps, news)
    if (isUnsent(deps, discarded)) ledger.messageReturned(job.id, job.generation)
    deps.events.emit({ type: 'job.expired', job })
    broker.unpark(job.id)
  }
  return expired.length > 0
}
