/** Dead letters: listed, retried with a new generation, deleted. */
import { notFound, stateConflict } from '../../errors.ts'
import { isExpired, type JobRow } from '../../job/job.ts'
import type { DeadLetterQuery, Revived } from '../../ledger/dead-letters.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { OthersFirst } from '../enqueue/wait-for-conflicts.ts'
import { keyTaken } from '../job-errors.ts'
import { sendOrLeave } from '../job-messages/send.ts'

/** Lists the dead letters, newest first (seed 001 §12.1). A pure read. */
export function listDeadLetters(
  deps: Pick<Deps, 'ledger'>,
  query: DeadLetterQuery,
): Promise<{ jobs: JobRow[]; total: number }> {
  return deps.ledger.read.deadLetters(query)
}

/**
 * Re-enqueues a dead letter (seed 001 §12.2): `available`, attempt 0, generation + 1. Answers from its
 * commit. Throws 404; 409 when `expires_at` has passed, since the job would be discarded again at once, or
 * when another job has its `unique` key by now; 503.
 */
export async function retryDeadLetter(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<JobRow> {
  const row = await deadLetter(deps, id)
  if (isExpired(row, deps.clock.wall())) {
    throw stateConflict('The job has expired (expires_at) and cannot be retried.', {
      job_id: id,
      current_state: row.state,
      reason: 'expired',
    })
  }
  const job = await revived(deps, row, context)
  if (job === 'stale') throw notFound('dead_letter_job', id)
  if ('existing' in job) throw keyTaken(job.existing, job.uniqueKey)
  const { requestId } = context
  deps.events.emit({ type: 'dead_letter.retried', job, requestId })
  deps.events.emit({ type: 'job.enqueued', job, requestId, promoted: true })
  void sendOrLeave(deps, job)
  return job
}

/** Revives the job; waits while the job that has its unique key may yet be withdrawn (see `admitted`). */
async function revived(
  deps: Deps,
  { id, generation }: JobRow,
  context: RequestContext,
): Promise<Revived> {
  let others: OthersFirst | undefined
  for (;;) {
    const done = await deps.ledger.revive(id, generation, deps.clock.now(), context)
    const isTaken = done !== 'stale' && 'existing' in done
    const decision = isTaken ? deps.transient.unconfirmed.get(done.existing.id) : undefined
    if (decision === undefined) return done
    others ??= new OthersFirst(deps)
    await others.wait(decision)
  }
}

/** Removes a dead letter for good (seed 001 §12.3): GET answers 404 from then on. Throws 404, 503. */
export async function deleteDeadLetter(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<void> {
  const job = await deadLetter(deps, id)
  const isDeleted = await deps.ledger.deleteDeadLetter(id, deps.clock.now())
  if (!isDeleted) throw notFound('dead_letter_job', id)
  deps.events.emit({ type: 'dead_letter.deleted', job, requestId: context.requestId })
}

async function deadLetter(deps: Deps, id: string): Promise<JobRow> {
  const row = await deps.ledger.read.find(id)
  if (row?.state !== 'discarded' || !row.isDeadLetter) throw notFound('dead_letter_job', id)
  return row
}
