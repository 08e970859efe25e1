/** Forgets what is recorded of a job. */
import { clearedHistory, readHistory } from '../../../job/history/changes.ts'
import { isErased } from '../../../job/job.ts'
import type { JobHistory } from '../../history.ts'
import type { Draft } from '../group/draft.ts'

/** See `HistoryLedger.clear`. */
export function clearHistory(draft: Draft, id: string): JobHistory | null {
  const row = draft.row(id)
  if (row === null || isErased(row.state)) return null
  const known = { job: draft.job(row), ...readHistory(row.history) }
  draft.change(row, { history: clearedHistory(row.history) })
  return known
}
