/** INFO: the whole job, read from the ledger. */
import { notFound, unavailable } from '../errors.ts'
import { isErased, type JobRow } from '../job/job.ts'
import { type ProgressNote, shownProgress } from '../job/progress.ts'
import type { Deps } from './deps.ts'
import { earlierWrites } from './earlier-writes.ts'

const REPORTS_OUT =
  'Another gateway that stands still may have been given reports about this job; repeat it later.'

/** A job as INFO shows it. `progress`: of its current attempt. */
export interface Info {
  job: JobRow
  progress: ProgressNote | null
}

/** INFO (seed 001 §7.9). A pure read: it answers while RabbitMQ is away. Throws 404. */
export async function info(deps: Pick<Deps, 'ledger'>, id: string): Promise<Info> {
  const job = await visibleJob(deps, id)
  if (job === null) throw notFound('job', id)
  return { job, progress: shownProgress(job, await deps.ledger.read.progress.find(id)) }
}

/**
 * INFO by a control message: waits for the writes of earlier messages. Rejects with 404, also for a job that
 * is not of `queue`, if the scope of control messages is one queue; with 503 while earlier messages may be with a gateway
 * that stands still. The job comes with its checkpoint, which a
 * native worker gets in no other way.
 */
export async function infoInOrder(
  deps: Pick<Deps, 'ledger' | 'settings' | 'broker'>,
  id: string,
  queue: string,
): Promise<Info> {
  if (deps.broker.mayReportsReturn(queue)) throw unavailable(REPORTS_OUT, 'busy')
  // A failed write has changed nothing, so the read is answered all the same, for example on a full disk.
  await earlierWrites(deps).catch(() => {})
  const found = await info(deps, id)
  const { job } = found
  const isInScope = deps.settings.controlScope === 'any' || job.queue === queue
  if (!isInScope) throw notFound('job', id)
  const checkpoint = await deps.ledger.read.checkpoints.find(id)
  if (checkpoint !== null) job.checkpoint = checkpoint
  return found
}

/** Returns the job as callers may see it: null also for an erased job, of which only a row is left. */
export async function visibleJob(
  { ledger }: Pick<Deps, 'ledger'>,
  id: string,
): Promise<JobRow | null> {
  const row = await ledger.read.find(id)
  return row === null || isErased(row.state) ? null : row
}
