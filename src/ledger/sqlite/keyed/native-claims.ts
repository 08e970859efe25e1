/** A native worker claims a job message that has a concurrency key: its attempt begins in this write. */
import { between, isPromotedByStart } from '../../../job/arrival.ts'
import { recordSkipped } from '../../../job/retry/failure.ts'
import type { KeyedClaim, KeyedStart } from '../../concurrency.ts'
import type { AdoptableMessage } from '../../leases.ts'
import { holdArrived, mayBegin } from '../concurrency/lines.ts'
import { toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { adoptJob } from '../writes/adopt.ts'
import { isOwedAgain, leaveUnowned, startAttempt } from '../writes/start.ts'

/** See `ConcurrencyLedger.startNative`. */
export function startKeyed(store: Store, start: KeyedStart): KeyedClaim {
  const { id, generation, state, attemptRead, attempt, terms } = start
  const row = toJobRow(store.statements.find.get(id))
  if (row === null || row.generation !== generation) return { outcome: 'stale' }
  if (row.state !== state || row.attempt !== attemptRead) return { outcome: 'stale' }
  const isActive = row.state === 'active'
  const skipped = between(isActive ? row.attempt - 1 : row.attempt, attempt)
  if (!isActive && !mayBegin(store, row)) {
    const { error, errors } = recordSkipped(row, skipped, null, terms.now)
    const before = { attempt: attempt - 1, error, errors }
    return { outcome: 'held', job: holdArrived(store, row, before, terms.now) }
  }
  const promote = isPromotedByStart(row)
  const job = startAttempt(store, row, { attempt, skipped, promote }, 'native', terms)
  if (isOwedAgain(row)) leaveUnowned(store, job)
  return { outcome: 'started', job, promoted: promote }
}

/** See `ConcurrencyLedger.adopt`. */
export function adoptKeyed(store: Store, jobMessage: AdoptableMessage, now: number): boolean {
  const { id, queue = null } = jobMessage
  if (store.statements.standing.get(id) !== undefined) return true
  if (store.tombstones.has(id, queue)) return true
  return !(adoptJob(store, jobMessage, now) instanceof Error)
}
