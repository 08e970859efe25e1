/** Another priority for a job that waits. */
import { withPriority } from '../../../job/document.ts'
import { type Cause, historyLine, PRIORITY_CHANGED } from '../../../job/history/changes.ts'
import type { JobRow } from '../../../job/job.ts'
import { hasMessage } from '../../../job/priority.ts'
import type { Prioritized } from '../../ledger.ts'
import { unprioritized } from '../../writes/priority.ts'
import { changed, toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'

interface Terms {
  now: number
  cause: Cause
  mayReplace: boolean
}

/** See `Ledger.prioritize`. Inside a write. */
export function prioritizeJob(
  store: Store,
  id: string,
  priority: number,
  terms: Terms,
): Prioritized {
  const row = toJobRow(store.statements.find.get(id))
  const refused = unprioritized(row, priority, terms)
  if (refused !== null || row === null) return refused ?? { outcome: 'not_found', row: null }
  const isReplaced = hasMessage(row)
  return {
    outcome: 'prioritized',
    job: write(store, row, priority, terms),
    before: row,
    isReplaced,
  }
}

function write(store: Store, row: JobRow, priority: number, { now, cause }: Terms): JobRow {
  const { prioritize, prioritizeAnew } = store.statements
  const { id, state, attempt, generation } = row
  const envelope = withPriority(row.envelope, priority)
  const why = { ...cause, reason: PRIORITY_CHANGED }
  const line = historyLine(now, state, attempt, null, why)
  const fence = [id, state, generation, attempt] as const
  if (!hasMessage(row)) return changed(prioritize.get(...fence, priority, envelope, line))
  // A native worker that comes later may be given the old message before anybody else.
  store.tombstones.record(id, row.queue, now)
  const nonce = state === 'available' ? store.nonces.next() : null
  return changed(prioritizeAnew.get(...fence, priority, envelope, line, nonce))
}
