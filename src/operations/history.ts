/** The history of one job, as its callers may see it. */
import { notFound } from '../errors.ts'
import type { JobHistory } from '../ledger/history.ts'
import type { Deps, RequestContext } from './deps.ts'

/** Reads what is recorded of a job (OJS execution history). Throws 404. */
export async function jobHistory(
  { ledger }: Pick<Deps, 'ledger'>,
  id: string,
): Promise<JobHistory> {
  const history = await ledger.read.history.find(id)
  if (history === null) throw notFound('job', id)
  return history
}

/** Forgets what is recorded of a job so far, and logs who asked for it. Throws 404, 503. */
export async function clearHistory(
  { ledger, logger }: Pick<Deps, 'ledger' | 'logger'>,
  id: string,
  { requestId, principal }: RequestContext,
): Promise<JobHistory> {
  const forgotten = await ledger.history.clear(id)
  if (forgotten === null) throw notFound('job', id)
  const changes = forgotten.changes.length
  logger.info({ jobId: id, changes, requestId, key: principal }, 'history of a job is deleted')
  return forgotten
}
