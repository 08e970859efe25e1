/** CANCEL, for a client, a workflow or a unique job; of unknown ids, too. */
import { type Cause, historyLine } from '../../../job/history.ts'
import { isErased } from '../../../job/job.ts'
import { canBecome } from '../../../job/states.ts'
import type { Cancelled } from '../../leases.ts'
import { toJobRow, toStanding } from '../sql/rows.ts'
import { isMessageOwed, type Store } from '../state/store.ts'
import { ended } from './attempt-counts.ts'

/** Cancels a job, for a client, for its workflow, or for a unique job that replaces it. Inside a write. */
export function cancelJob(
  store: Store,
  id: string,
  now: number,
  cause: Cause = {},
): Cancelled | 'stale' {
  const { statements, nonces } = store
  const row = toJobRow(statements.find.get(id))
  if (!row || isErased(row.state) || !canBecome(row.state, 'cancelled')) return 'stale'
  const line = historyLine(now, 'cancelled', row.attempt, null, cause)
  const job = toJobRow(statements.cancel.get(id, row.state, now, nonces.next(), line))
  if (!job) return 'stale'
  ended(store, job, row)
  return { job, previousState: row.state, isMessageOwed: isMessageOwed(store, row) }
}

/** See `Ledger.cancelAny`. Inside a write. */
export function cancelAny(
  store: Store,
  id: string,
  queue: string,
  now: number,
  isScoped: boolean,
  cause: Cause = {},
): Cancelled | 'stale' | 'tombstoned' | 'elsewhere' {
  const known = toStanding(store.statements.standing.get(id))
  if (known === null) {
    return store.tombstones.record(id, queue, now, isScoped) ? 'tombstoned' : 'elsewhere'
  }
  return isScoped && known.queue !== queue ? 'elsewhere' : cancelJob(store, id, now, cause)
}
