import { jobNotFound } from '../errors.ts'
import type { JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'

/** INFO (seed 001 §7.9). A pure read: it answers while RabbitMQ is away. Throws 404. */
export function info(deps: Pick<Deps, 'ledger'>, id: string): JobRow {
  const row = deps.ledger.find(id)
  if (row === null || row.state === 'withdrawn') throw jobNotFound(id)
  return row
}
