import { jobNotFound } from '../errors.ts'
import type { JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'
import { visibleJob } from './visible-job.ts'

/** INFO (seed 001 §7.9). A pure read: it answers while RabbitMQ is away. Throws 404. */
export function info(deps: Pick<Deps, 'ledger'>, id: string): JobRow {
  const row = visibleJob(deps, id)
  if (row === null) throw jobNotFound(id)
  return row
}
