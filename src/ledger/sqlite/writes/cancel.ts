/** CANCEL, for a client, a workflow or a unique job; of unknown ids, too. And purge, which cancels and erases. */
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import { isErased, isTerminal, type JobRow, type JobState } from '../../../job/job.ts'
import { isStale, type Stale } from '../../../job/stale.ts'
import { canBecome } from '../../../job/states.ts'
import type { Cancelled } from '../../ended.ts'
import type { Purged, PurgeTerms } from '../../ledger.ts'
import { toJobRow, toStanding } from '../sql/rows.ts'
import { staleOf } from '../state/stale-row.ts'
import { isMessageOwed, type Store } from '../state/store.ts'
import { ended } from './attempt-counts.ts'

/** Cancels a job, for a client, for its workflow, or for a unique job that replaces it. Inside a write. */
export function cancelJob(
  store: Store,
  id: string,
  now: number,
  cause: Cause = {},
): Cancelled | Stale {
  const { statements, nonces } = store
  const row = toJobRow(statements.find.get(id))
  if (!row || isErased(row.state) || !canBecome(row.state, 'cancelled')) {
    return staleOf(store, id)
  }
  const line = historyLine(now, 'cancelled', row.attempt, null, cause)
  const job = toJobRow(statements.cancel.get(id, row.state, now, nonces.next(), line))
  if (!job) return staleOf(store, id)
  const news = ended(store, job, row)
  return { job, previousState: row.state, isMessageOwed: isMessageOwed(store, row), news }
}

/** See `Ledger.cancelAny`. Inside a write. */
export function cancelAny(
  store: Store,
  id: string,
  queue: string,
  now: number,
  isScoped: boolean,
  cause: Cause = {},
): Cancelled | Stale | 'tombstoned' | 'elsewhere' {
  const known = toStanding(store.statements.standing.get(id))
  if (known === null) {
    return store.tombstones.record(id, queue, now, isScoped) ? 'tombstoned' : 'elsewhere'
  }
  return isScoped && known.queue !== queue ? 'elsewhere' : cancelJob(store, id, now, cause)
}

/** See `Ledger.purge`. Inside a write. */
export function purgeJobs(store: Store, ids: readonly string[], terms: PurgeTerms): Purged[] {
  return ids.flatMap((id) => purgeOne(store, id, terms) ?? [])
}

function purgeOne(store: Store, id: string, { states, now, cause }: PurgeTerms): Purged | null {
  const row = toJobRow(store.statements.find.get(id))
  if (row === null || !states.includes(row.state as JobState)) return null
  if (isTerminal(row.state)) return { job: row, cancelled: null, isKept: !erase(store, row, now) }
  const cancelled = cancelJob(store, id, now, cause)
  if (isStale(cancelled)) return null
  return { job: cancelled.job, cancelled, isKept: !erase(store, cancelled.job, now) }
}

/** False: its workflow needs the row. */
function erase(store: Store, { id, queue, state, ...row }: JobRow, now: number): boolean {
  const { statements, counter } = store
  statements.cronRunEnd.run(id)
  if (statements.erase.run(id, now).changes !== 1) return false
  store.notes.forget(id)
  counter.moved(queue, state as JobState, null)
  if (row.isDeadLetter) counter.moved(queue, 'dead_letter', null)
  if (row.deadLetterCopied) store.stale.add(queue)
  return true
}
