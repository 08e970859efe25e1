import type { Deps } from '../operations/deps.ts'
import { systemPass } from '../telemetry/tracing.ts'
import { Loop } from './loop.ts'

/** Looks this often: what is due may be this late, and the look is one index read. */
const INTERVAL_MS = 40
const PAGE = 500

/**
 * Makes due retries and scheduled jobs `available` on time, whether or not their token has arrived
 * (architecture §4.3). A job that the ledger held gets its token now.
 */
export function promoter(deps: Deps): Loop {
  return new Loop({
    name: 'promoter',
    everyMs: INTERVAL_MS,
    logger: deps.logger,
    runOnce: async () => {
      const isMore = (await promoteOnce(deps)) === PAGE
      return (await sendAheadOnce(deps)) === PAGE || isMore
    },
  })
}

/** Returns how many jobs became available. */
async function promoteOnce(deps: Deps): Promise<number> {
  const now = deps.clock.now()
  const wall = deps.clock.wall()
  const { retryable, scheduled } = deps.ledger.nextDue()
  const isDue = (retryable ?? Infinity) <= now || (scheduled ?? Infinity) <= wall
  return isDue ? await systemPass('ojs.scheduler.poll', () => promoteDue(deps, now, wall)) : 0
}

/** In mode `plugin`, RabbitMQ has the token before the job is due. Returns how many are owed now. */
async function sendAheadOnce(deps: Deps): Promise<number> {
  const { delayMode, horizonMs } = deps.settings
  if (delayMode !== 'plugin') return 0
  const count = await deps.ledger.sendAhead(deps.clock.wall() + horizonMs, PAGE)
  if (count > 0) deps.wakeRelay()
  return count
}

async function promoteDue(deps: Deps, now: number, wall: number): Promise<number> {
  const jobs = await deps.ledger.promote(now, wall, PAGE)
  for (const job of jobs) {
    deps.events.emit({ type: 'job.enqueued', job, promoted: true })
    // Its token may have come early and wait for this moment.
    deps.broker.unpark(job.id)
  }
  if (jobs.some((job) => job.outbox !== null)) deps.wakeRelay()
  return jobs.length
}
