/** INFO: the whole job, read from the ledger. */
import { notFound } from '../errors.ts'
import { isErased, type JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'
import { earlierWrites } from './earlier-writes.ts'

/** INFO (seed 001 §7.9). A pure read: it answers while RabbitMQ is away. Throws 404. */
export function info(deps: Pick<Deps, 'ledger'>, id: string): JobRow {
  const row = visibleJob(deps, id)
  if (row === null) throw notFound('job', id)
  return row
}

/**
 * INFO by a control message: waits for the writes of earlier messages. Rejects with 404, also for a job that
 * is not of `queue`, if the scope of control messages is one queue.
 */
export async function infoInOrder(
  deps: Pick<Deps, 'ledger' | 'settings'>,
  id: string,
  queue: string,
): Promise<JobRow> {
  // A failed write has changed nothing, so the read is answered all the same, for example on a full disk.
  await earlierWrites(deps).catch(() => {})
  const row = info(deps, id)
  const isInScope = deps.settings.controlScope === 'any' || row.queue === queue
  if (!isInScope) throw notFound('job', id)
  return row
}

/** Returns the job as callers may see it: null also for an erased job, of which only a row is left. */
export function visibleJob({ ledger }: Pick<Deps, 'ledger'>, id: string): JobRow | null {
  const row = ledger.find(id)
  return row === null || isErased(row.state) ? null : row
}
