/** Another priority for a job that waits, whatever keeps the rows. */
import { isErased, type JobRow } from '../../job/job.ts'
import { hasMessage, priorityRefusal } from '../../job/priority.ts'
import type { Prioritized } from '../ledger.ts'

/** What the row alone says to it. Null: the priority is to be written. */
export function unprioritized(
  row: JobRow | null,
  priority: number,
  { mayReplace }: { mayReplace: boolean },
): Prioritized | null {
  if (row === null || isErased(row.state)) return { outcome: 'not_found', row: null }
  const refusal = priorityRefusal(row)
  if (refusal !== null) return { outcome: refusal, row }
  if (row.priority === priority)
    return { outcome: 'prioritized', job: row, before: row, isReplaced: false }
  return hasMessage(row) && !mayReplace ? { outcome: 'message_out', row } : null
}
