/** Available jobs whose messages RabbitMQ no longer has: completed, published again, or counted. */
import type { ReportedEvent } from '../job/native/report.ts'
import type { Deps } from './deps.ts'
import { recordReports } from './native/report.ts'

/** More jobs than this are not counted. */
export const MAX_COUNTED = 10_000
/** Jobs that one commit completes. */
const PAGE = 500
/** Names the worker of a job that a plain consumer ran. */
const PLAIN = 'plain-consumer'

/** As `JobCounts.onDrift` has it. */
interface Drift {
  queue: string
  before: number
  aloneSince: number | null
  isPlain: boolean
}

/**
 * Handles jobs that have been available since before `before` although RabbitMQ has no message of theirs. In
 * a queue with plain consumers they were acknowledged, and so are completed. Else publishes those again that
 * became available after `aloneSince`: since then no other consumer was seen on the queue that may have run
 * them. Returns how many are left, for an operator to decide (`recoverQueue`); null: reports about them still wait.
 */
export async function onDrift(deps: Deps, drift: Drift): Promise<number | null> {
  const { broker, ledger, logger } = deps
  const { queue, before, aloneSince, isPlain } = drift
  if (!(await broker.catchUp([queue]))) return null
  // What is marked as lost is published again by an operator only.
  const isAlone = aloneSince !== null && aloneSince < before && !ledger.known.lost.has(queue)
  if (isPlain) await complete(deps, drift)
  else if (isAlone) {
    const jobs = await ledger.lostMessages.rearm(queue, { after: aloneSince, before })
    if (jobs > 0) {
      logger.warn({ queue, jobs }, 'jobs had no message in RabbitMQ: they will be published again')
      deps.wakeRelay()
    }
  }
  return await countLost(ledger, queue, before)
}

/** Available jobs of the queue without a message since before `before`, counted up to 10,000. By index. */
export async function countLost(
  ledger: Deps['ledger'],
  queue: string,
  before: number,
): Promise<number> {
  return (await ledger.read.lostMessages.list(queue, { after: null, before }, MAX_COUNTED)).length
}

async function complete(deps: Deps, { queue, before }: Drift): Promise<void> {
  const { ledger } = deps
  for (;;) {
    const ids = await ledger.read.lostMessages.list(queue, { after: null, before }, PAGE)
    const rows = await ledger.read.standings(ids)
    const events = [...rows.values()].map(({ id, generation, attempt }): ReportedEvent => {
      const said = { event: 'completed', result: null } as const
      return { id, generation, attempt: attempt + 1, workerId: PLAIN, ofQueue: queue, said }
    })
    if (events.length === 0) return
    const context = { requestId: `req_${deps.newId()}` }
    // None applied: leave the rest to the warning.
    if ((await recordReports(deps, events, context)).applied === 0) return
  }
}
