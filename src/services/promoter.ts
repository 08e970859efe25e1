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
  const jobs = await deps.ledger.promote(deps.clock.now(), deps.clock.wall(), PAGE)
  if (jobs.length === 0) return false
  await systemPass('ojs.scheduler.poll', async () => {
    follow(deps, jobs)
    return jobs.length
  })
  return mayHaveMore(jobs, PAGE)
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

function follow(deps: Deps, jobs: readonly JobRow[]): void {
  for (const job of jobs) {
    emitDue(deps, job)
    // Its job message may have arrived early, and its delivery been parked until now.
    deps.broker.unpark(job.id)
  }
  if (jobs.some((job) => job.outbox !== null)) deps.wakeRelay()
}
