/** A native worker asks about a redelivered message: decided, and begun where it has a key, in this write. */
import { isHeldByKey } from '../../job/concurrency.ts'
import type { Checkpoint, JobRow, NewJob } from '../../job/job.ts'
import { decideNativeClaim, type Fate, isBegunFor } from '../../job/native/claim.ts'
import { type Beginning, beginningOf } from '../../job/native/report.ts'
import { recordSkipped } from '../../job/retry/failure.ts'
import type { ClaimTerms } from '../leases.ts'
import type { NativeAnswer, NativeQuestion } from '../native.ts'

/** What a row must tell. */
type Told = Fate & Pick<JobRow, 'id' | 'queue' | 'outbox'>

/** The rows of jobs, as a ledger keeps them, inside a write. */
export interface ClaimedRows<R extends Told> {
  find(id: string): R | null
  isTombstoned(id: string, queue: string | null): boolean
  isPaused(queue: string): boolean
  checkpoint(id: string): Checkpoint | null
  /** False: the body is no job. */
  adopt(question: NativeQuestion & { adopt(): NewJob }): boolean
  hasKey(row: R): boolean
  /** By the limit of its key. */
  mayBegin(row: R): boolean
  whole(row: R): JobRow
  begin(row: R, beginning: Beginning & { attempt: number }): JobRow
  /** Its message has come, and is about to be acknowledged. */
  hold(row: R, before: Pick<JobRow, 'attempt' | 'error' | 'errors'>): void
  /** The message of this attempt is gone. */
  messageReturned(row: R, attempt: number): void
  /** The ledger alone holds the lease from now on. */
  leaveToLedger(row: R): void
}

export type NativeTerms = Omit<ClaimTerms, 'leaseMs'>

/** See `NativeLedger.claimNative`. */
export function answerNative<R extends Told>(
  rows: ClaimedRows<R>,
  question: NativeQuestion,
  terms: NativeTerms,
): NativeAnswer {
  const { id, attempt, ofQueue } = question
  const row = rows.find(id)
  if (row !== null && ofQueue !== null && row.queue !== ofQueue)
    return { decision: 'discard', attempt }
  const mayHaveBegun = question.isAgain || (question.isRepeated && question.isKeyed)
  if (row !== null && mayHaveBegun && isBegunFor(question, row))
    return run(rows, id, { attempt: row.attempt, isBegun: true })
  if (question.areReportsOut) return { decision: 'requeue', attempt }
  const decision = decideNativeClaim(question, row, {
    now: terms.now,
    wall: terms.wall,
    isTombstoned: row === null && rows.isTombstoned(id, ofQueue),
    isHeldHere: question.isHeldHere(),
  })
  if (decision.decision === 'run') return mayRun(rows, question, row, decision.attempt, terms)
  if (decision.decision === 'drop' && row !== null) {
    // The message may be with the lease's worker by now.
    if (decision.handOver && question.isRepeated) return { decision: 'requeue', attempt }
    if (decision.isOver) rows.messageReturned(row, attempt)
    if (decision.handOver) rows.leaveToLedger(row)
  }
  return { decision: decision.decision, attempt }
}

function run<R extends Told>(
  rows: ClaimedRows<R>,
  id: string,
  begun: { attempt: number; isBegun: boolean },
): NativeAnswer {
  return { decision: 'run', ...begun, start: null, checkpoint: rows.checkpoint(id) }
}

function mayRun<R extends Told>(
  rows: ClaimedRows<R>,
  question: NativeQuestion,
  row: R | null,
  attempt: number,
  terms: NativeTerms,
): NativeAnswer {
  const { id, adopt, isKeyed, heardOn } = question
  if (rows.isPaused(row?.queue ?? heardOn)) return { decision: 'requeue', attempt }
  // It would begin an attempt that nobody runs, if the worker has lost the message since. One that has not gives it back,
  // and asks anew.
  if (question.isRepeated && isKeyed) return { decision: 'requeue', attempt }
  if (isKeyed && row === null && adopt !== undefined) {
    const isJob = rows.adopt({ ...question, adopt })
    return isJob ? answerNative(rows, question, terms) : { decision: 'discard', attempt }
  }
  const isLimited = isKeyed && row !== null && rows.hasKey(row)
  return isLimited
    ? start(rows, question, row, attempt, terms)
    : run(rows, id, { attempt, isBegun: false })
}

/**
 * Begins the attempt of a job that has a key; or holds it back, and its message is dropped. A question that comes after
 * its worker has lost the message, and another one was told to drop it, must begin nothing: it would have no message.
 */
function start<R extends Told>(
  rows: ClaimedRows<R>,
  question: NativeQuestion,
  row: R,
  attempt: number,
  { now }: NativeTerms,
): NativeAnswer {
  const beginning = beginningOf(attempt, row)
  const isWaiting = row.state !== 'active'
  // Given back by the worker before; the ledger is about to publish the message anew.
  if (isWaiting && row.workerId !== null && row.outbox !== null)
    return { decision: 'requeue', attempt }
  if (isWaiting && (isHeldByKey(row) || !rows.mayBegin(row))) {
    const recorded = recordSkipped(rows.whole(row), beginning.skipped, null, now)
    rows.hold(row, { attempt: attempt - 1, ...recorded })
    rows.messageReturned(row, question.attempt)
    return { decision: 'drop', attempt }
  }
  const job = rows.begin(row, { attempt, ...beginning })
  const checkpoint = rows.checkpoint(row.id)
  const started = { job, promoted: beginning.promote }
  return { decision: 'run', attempt, isBegun: true, start: started, checkpoint }
}
