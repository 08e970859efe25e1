/** ACTIVATE: a `pending` job becomes available, or scheduled if it names a time. */
import { stateConflictCode } from '../../dialect.ts'
import { notFound, stateConflict } from '../../errors.ts'
import { isErased, type JobRow } from '../../job/job.ts'
import { isStale, type Stale } from '../../job/stale.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { sendOrLeave } from '../job-messages/send.ts'

/**
 * ACTIVATE (seed 001 §7.8, §9.5): `pending → available`, or `scheduled` if the job also names a time in the
 * future (ojs-choices C-95). Answers from its commit. Throws 404, 409, 503.
 */
export async function activate(deps: Deps, id: string, context: RequestContext): Promise<JobRow> {
  const job = await deps.ledger.activate(id, deps.clock.now(), deps.clock.wall(), context)
  if (isStale(job)) throw explainNotPending(deps, id, job)
  const { requestId } = context
  if (job.state === 'scheduled')
    deps.events.emit({ type: 'job.scheduled', job, from: 'pending', requestId })
  else {
    deps.events.emit({ type: 'job.enqueued', job, requestId, promoted: true, from: 'pending' })
    void sendOrLeave(deps, job)
  }
  return job
}

function explainNotPending({ settings }: Deps, id: string, { row }: Stale): Error {
  if (row === null || isErased(row.state)) return notFound('job', id)
  return stateConflict(
    `Cannot activate job in state '${row.state}'. Only jobs in 'pending' state can be activated.`,
    { job_id: id, current_state: row.state, expected_state: 'pending' },
    stateConflictCode(settings.dialect),
  )
}
