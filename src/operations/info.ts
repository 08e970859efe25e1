import { notFound } from '../errors.ts'
import type { JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'
import { earlierWrites } from './earlier-writes.ts'
import { visibleJob } from './visible-job.ts'

/** INFO (seed 001 §7.9). A pure read: it answers while RabbitMQ is away. Throws 404. */
export function info(deps: Pick<Deps, 'ledger'>, id: string): JobRow {
  const row = visibleJob(deps, id)
  if (row === null) throw notFound('job', id)
  return row
}

/** The same for a message: what its asker had said before it asked counts. Rejects with 404. */
export async function infoInOrder(deps: Pick<Deps, 'ledger'>, id: string): Promise<JobRow> {
  // What could not be written is not so: a read is answered on a full disk, too.
  await earlierWrites(deps).catch(() => {})
  return info(deps, id)
}
