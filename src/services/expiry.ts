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
 * Returns true if there may be more. Discards nothing before the reports that wait in the control queues are
 * recorded: a job that seems to wait may have run on a native worker in time. They wait after a restart
 * (docs/architecture.md §2, "Restart"), but also after this process stood still.
 */
async function expireOnce(deps: Deps): Promise<boolean> {
  const { broker, clock, ledger } = deps
  if (!broker.controlBacklogConsumed()) return false
  const wall = clock.wall()
  const { queues, count } = await ledger.read.expiring(wall, PAGE)
  if (count === 0) return false
  await broker.catchUp(queues)
  // RabbitMQ may be gone by now, and the reports with it.
  if (!broker.controlBacklogConsumed()) return false
  const expired = await ledger.expire({ now: clock.now(), wall, limit: count })
  for (const discarded of expired) {
    const { job, news } = discarded
    if (news !== undefined) followNews(deps, news)
    if (isUnsent(deps, discarded)) ledger.messageReturned(job.id, job.generation)
    deps.events.emit({ type: 'job.expired', job })
    broker.unpark(job.id)
  }
  return expired.length > 0
}
