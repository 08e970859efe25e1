/** A native worker asks about a redelivered message: decided, and begun where it has a key, in this write. */
import { between, isPromotedByStart } from '../../../job/arrival.ts'
import type { JobRow } from '../../../job/job.ts'
import {
  decideNativeClaim,
  isBegunFor,
  type NativeClaimDecision,
} from '../../../job/native/claim.ts'
import { recordSkipped } from '../../../job/retry/failure.ts'
import { isOwedAgain } from '../../../job/transitions/native.ts'
import type { ClaimTerms } from '../../leases.ts'
import type { NativeAnswer, NativeQuestion } from '../../native.ts'
import { holdArrived, mayBegin } from '../concurrency/lines.ts'
import { toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { adoptJob } from '../writes/adopt.ts'
import { leaveUnowned, startAttempt } from '../writes/start.ts'

type Terms = Omit<ClaimTerms, 'leaseMs'>

/** See `NativeLedger.claimNative`. */
export function claimNative(store: Store, question: NativeQuestion, terms: Terms): NativeAnswer {
  const { id, attempt, ofQueue } = question
  const row = toJobRow(store.statements.find.get(id))
  if (row !== null && ofQueue !== null && row.queue !== ofQueue) {
    return { decision: 'discard', attempt }
  }
  if (row !== null && question.isAgain && isBegunFor(question, row)) {
    return run(store, id, { attempt: row.attempt, isBegun: true })
  }
  const decision = decideNativeClaim(question, row, {
    now: terms.now,
    wall: terms.wall,
    isTombstoned: row === null && store.tombstones.has(id, ofQueue),
    isHeldHere: question.isHeldHere(),
  })
  switch (decision.decision) {
    case 'run':
      return mayRun(store, question, row, decision.attempt, terms)
    case 'drop':
      return drop(store, question, row, decision)
    case 'discard':
      return { decision: 'discard', attempt }
  }
}

function run(
  store: Store,
  id: string,
  { attempt, isBegun = false }: { attempt: number; isBegun?: boolean },
): NativeAnswer {
  const checkpoint = store.notes.checkpoint(id)
  return { decision: 'run', attempt, isBegun, start: null, checkpoint }
}

function mayRun(
  store: Store,
  question: NativeQuestion,
  row: JobRow | null,
  attempt: number,
  terms: Terms,
): NativeAnswer {
  const { id, adopt, isKeyed, heardOn } = question
  if (store.pauses.isPaused(row?.queue ?? heardOn)) return { decision: 'requeue', attempt }
  if (isKeyed && row === null && adopt !== undefined) {
    const isJob = !(adoptJob(store, { ...question, adopt }, terms.now) instanceof Error)
    return isJob ? claimNative(store, question, terms) : { decision: 'discard', attempt }
  }
  const isLimited = isKeyed && row?.carry?.concurrency !== undefined
  return isLimited ? start(store, question, row, attempt, terms) : run(store, id, { attempt })
}

/** Begins the attempt of a job that has a key; or holds it back, and its message is dropped. */
function start(
  store: Store,
  question: NativeQuestion,
  row: JobRow,
  attempt: number,
  terms: Terms,
): NativeAnswer {
  const isActive = row.state === 'active'
  const skipped = between(isActive ? row.attempt - 1 : row.attempt, attempt)
  if (!isActive && !mayBegin(store, row)) {
    const { error, errors } = recordSkipped(row, skipped, null, terms.now)
    holdArrived(store, row, { attempt: attempt - 1, error, errors }, terms.now)
    store.statements.messageReturned.run(row.id, row.generation, question.attempt)
    return { decision: 'drop', attempt }
  }
  const promoted = isPromotedByStart(row)
  const by = { ...terms, leaseMs: null }
  const job = startAttempt(store, row, { attempt, skipped, promote: promoted }, 'native', by)
  if (isOwedAgain(row)) leaveUnowned(store, job)
  const checkpoint = store.notes.checkpoint(row.id)
  return { decision: 'run', attempt, isBegun: true, start: { job, promoted }, checkpoint }
}

function drop(
  { statements }: Store,
  { attempt }: NativeQuestion,
  row: JobRow | null,
  { isOver, handOver }: Extract<NativeClaimDecision, { decision: 'drop' }>,
): NativeAnswer {
  if (row !== null && isOver) statements.messageReturned.run(row.id, row.generation, attempt)
  if (row !== null && handOver) statements.handOverAny.run(row.id, row.generation, row.attempt)
  return { decision: 'drop', attempt }
}
