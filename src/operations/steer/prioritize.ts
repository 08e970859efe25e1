/** PATCH of a waiting job: another priority. */
import { stateConflictCode } from '../../dialect.ts'
import { notFound, stateConflict, unavailable } from '../../errors.ts'
import type { JobRow } from '../../job/job.ts'
import { PRIORITIZED } from '../../job/priority.ts'
import type { Prioritized } from '../../ledger/ledger.ts'
import { parsePriority } from '../../schemas/requests/admin.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { sendOrLeave } from '../job-messages/send.ts'
import { broadcastCancel } from '../workers/broadcasts.ts'

/**
 * Gives a job that is `available`, `scheduled` or `pending` another priority (OJS priority). Where a message with
 * the old one is in RabbitMQ, the job goes on in the next generation with a message of its own, and the old one is
 * dropped when it arrives. Answers from the commit. Throws 400, 404; 409 in another state; 503 as long as native
 * workers may have begun the job without our knowledge.
 */
export async function prioritize(
  deps: Deps,
  id: string,
  body: unknown,
  context: RequestContext,
): Promise<JobRow> {
  const { priority } = parsePriority(body)
  const done = await deps.ledger.prioritize(id, priority, {
    now: deps.clock.now(),
    cause: context,
    mayReplace: deps.broker.controlBacklogConsumed(),
  })
  if (done.outcome !== 'prioritized') throw refusal(deps, id, done)
  const { job, before, isReplaced } = done
  if (isReplaced) replace(deps, before, job)
  if (job.priority !== before.priority) {
    const { requestId } = context
    deps.events.emit({ type: 'priority.changed', job, from: before.priority, requestId })
  }
  return job
}

/** Native workers drop the message before, whether they have it already or are given it later. */
function replace(deps: Deps, before: JobRow, job: JobRow): void {
  void broadcastCancel(deps, before)
  // A message of the generation before may be parked until this row changes.
  deps.broker.unpark(job.id)
  if (job.outbox === null) return
  if (deps.jobMessages.isInHand(job.id)) deps.wakeRelay()
  else void sendOrLeave(deps, job)
}

function refusal(
  { settings }: Pick<Deps, 'settings'>,
  id: string,
  { outcome, row }: Exclude<Prioritized, { outcome: 'prioritized' }>,
) {
  if (row === null) return notFound('job', id)
  if (outcome === 'message_out') {
    return unavailable(
      'What native workers have begun is not known yet: try again.',
      'control_backlog',
    )
  }
  const isState = outcome === 'state'
  return stateConflict(
    isState
      ? `Cannot change the priority of a job in state '${row.state}'.`
      : 'The message of the job is with a native worker.',
    {
      job_id: id,
      current_state: row.state,
      ...(isState
        ? { reason: 'invalid_state_transition', expected_states: PRIORITIZED }
        : { reason: 'with_native_worker' }),
    },
    stateConflictCode(settings.dialect),
  )
}
