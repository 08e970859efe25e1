/** A native worker asks about a redelivered message: decided in this write. */
import { between, isPromotedByStart } from '../../../job/arrival.ts'
import {
  decideNativeClaim,
  isBegunFor,
  type NativeClaimDecision,
} from '../../../job/native/claim.ts'
import { recordSkipped } from '../../../job/retry/failure.ts'
import { returned } from '../../../job/transitions/end.ts'
import { isOwedAgain } from '../../../job/transitions/native.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { ClaimTerms } from '../../leases.ts'
import type { NativeAnswer, NativeQuestion } from '../../native.ts'
import type { Draft } from '../group/draft.ts'
import { CHECKPOINTS } from '../group/notes.ts'
import { holdArrived, mayStart } from '../keyed/lines.ts'
import { isPaused } from '../queues/pauses.ts'
import { adoptJob } from './adopt.ts'
import { leaveUnowned, startAttempt } from './start.ts'

type Terms = Omit<ClaimTerms, 'leaseMs'>

/** See `NativeLedger.claimNative`. */
export function claimNative(draft: Draft, question: NativeQuestion, terms: Terms): NativeAnswer {
  const { id, attempt, ofQueue } = question
  const row = draft.row(id)
  if (row !== null && ofQueue !== null && row.queue !== ofQueue)
    return { decision: 'discard', attempt }
  if (row !== null && question.isAgain && isBegunFor(question, row))
    return run(draft, id, row.attempt, true)
  const decision = decideNativeClaim(question, row, {
    now: terms.now,
    wall: terms.wall,
    isTombstoned: row === null && draft.isTombstoned(id, ofQueue),
    isHeldHere: question.isHeldHere(),
  })
  switch (decision.decision) {
    case 'run':
      return mayRun(draft, question, row, decision.attempt, terms)
    case 'drop':
      return drop(draft, question, row, decision)
    case 'discard':
      return { decision: 'discard', attempt }
  }
}

function run(draft: Draft, id: string, attempt: number, isBegun: boolean): NativeAnswer {
  const checkpoint = draft.side(CHECKPOINTS, id)
  return { decision: 'run', attempt, isBegun, start: null, checkpoint }
}

function mayRun(
  draft: Draft,
  question: NativeQuestion,
  row: KeptRow | null,
  attempt: number,
  terms: Terms,
): NativeAnswer {
  const { id, adopt, isKeyed, heardOn } = question
  if (isPaused(draft, row?.queue ?? heardOn)) return { decision: 'requeue', attempt }
  if (isKeyed && row === null && adopt !== undefined) {
    const error = adoptJob(draft, { ...question, adopt }, terms.now)
    return error === null ? claimNative(draft, question, terms) : { decision: 'discard', attempt }
  }
  const isLimited = isKeyed && row !== null && row.concurrencyKey !== null
  return isLimited ? start(draft, question, row, attempt, terms) : run(draft, id, attempt, false)
}

/** Begins the attempt of a job that has a key; or holds it back, and its message is dropped. */
function start(
  draft: Draft,
  question: NativeQuestion,
  row: KeptRow,
  attempt: number,
  terms: Terms,
): NativeAnswer {
  const isActive = row.state === 'active'
  const skipped = between(isActive ? row.attempt - 1 : row.attempt, attempt)
  if (!isActive && !mayStart(draft, row)) {
    const { error, errors } = recordSkipped(draft.job(row), skipped, null, terms.now)
    holdArrived(draft, row, { attempt: attempt - 1, error, errors }, terms.now)
    messageReturned(draft, row.id, row.generation, question.attempt)
    return { decision: 'drop', attempt }
  }
  const promoted = isPromotedByStart(row)
  const by = { ...terms, leaseMs: null }
  const begun = startAttempt(draft, row, { attempt, skipped, promote: promoted }, 'native', by)
  if (isOwedAgain(row)) leaveUnowned(draft, begun)
  const checkpoint = draft.side(CHECKPOINTS, row.id)
  const job = draft.job(begun)
  return { decision: 'run', attempt, isBegun: true, start: { job, promoted }, checkpoint }
}

function messageReturned(draft: Draft, id: string, generation: number, attempt: number): void {
  const row = draft.row(id)
  const back = row && returned(row, generation, attempt)
  if (row && back) draft.change(row, back)
}

function drop(
  draft: Draft,
  { attempt }: NativeQuestion,
  row: KeptRow | null,
  { isOver, handOver }: Extract<NativeClaimDecision, { decision: 'drop' }>,
): NativeAnswer {
  const back = row !== null && isOver ? returned(row, row.generation, attempt) : null
  const after = row !== null && back !== null ? draft.change(row, back) : row
  if (after !== null && handOver) leaveUnowned(draft, after)
  return { decision: 'drop', attempt }
}
