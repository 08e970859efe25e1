/** Makes due retries and scheduled jobs available on time. */
import type { JobRow } from '../job/job.ts'
import { mayHaveMore } from '../job/page.ts'
import type { Deps } from '../operations/deps.ts'
import { emitDue } from '../operations/emit-promoted.ts'
import { systemPass } from '../telemetry/tracing.ts'
import { Loop } from './loop.ts'

/** A due job may be this late. Each look is one index read. */
const INTERVAL_MS = 40
const PAGE = 500

/**
 * Makes due retries and scheduled jobs `available` on time, whether or not their job message has arrived
 * (docs/architecture.md §4.3). The relay publishes the messages of jobs that the ledger held.
 */
export function promoter(deps: Deps): Loop {
  return new Loop({
    name: 'promoter',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async () => {
      const isMore = await promoteOnce(deps)
      return (await sendAheadOnce(deps)) === PAGE || isMore
    },
  })
}

/** Promotes one page of due jobs. Returns true if there may be more. */
async function promoteOnce(deps: Deps): Promise<boolean> {
  const now = deps.clock.now()
  const wall = deps.clock.wall()
  const { retryable, scheduled } = await deps.ledger.read.nextDue()
  const isDue = (retryable ?? Infinity) <= now || (scheduled ?? Infinity) <= wall
  if (!isDue) return false
  let isMore = false
  await systemPass('ojs.scheduler.poll', async () => {
    const jobs = await promoteDue(deps, now, wall)
    isMore = mayHaveMore(jobs, PAGE)
    return jobs.length
  })
  return isMore
}

/**
 * In mode `plugin`, sends job messages to RabbitMQ before the jobs are due. Returns how many are owed now.
 */
async function sendAheadOnce(deps: Deps): Promise<number> {
  const { delayMode, horizonMs } = deps.settings
  if (delayMode !== 'plugin') return 0
  const count = await deps.ledger.sendAhead(deps.clock.wall() + horizonMs, PAGE)
  if (count > 0) deps.wakeRelay()
  return count
}

async function promoteDue(deps: Deps, now: number, wall: number): Promise<JobRow[]> {
  const jobs = await deps.ledger.promote(now, wall, PAGE)
  for (const job of jobs) {
    emitDue(deps, job)
    // Its job message may have arrived early, and its delivery been parked until now.
    deps.broker.unpark(job.id)
  }
  if (jobs.some((job) => job.outbox !== null)) deps.wakeRelay()
  return jobs
}
