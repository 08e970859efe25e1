/** The events of a native worker's report, whatever keeps the rows. */
import { isTerminal, type JobRow } from '../../job/job.ts'
import {
  attemptKey,
  type Beginning,
  boundAttempt,
  type Decision,
  decideReport,
  type Fate,
  type ReportedEvent,
  type Said,
} from '../../job/native/report.ts'
import type { WithNews } from '../ended.ts'
import type { ReportResult } from '../native.ts'

const IGNORED: ReportResult = { outcome: 'ignored' }
const OF_ANOTHER: ReportResult = { outcome: 'refused', reason: 'other_queue' }

export type Completed = Extract<Said, { event: 'completed' }>
export type Failed = Extract<Said, { event: 'failed' }>

/** What a row must tell. */
type Told = Fate & Pick<JobRow, 'queue' | 'maxAttempts' | 'messageOut'>

type Ended = { job: JobRow } & WithNews

/** The rows of jobs, as a ledger keeps them, inside a write. `W`: with what an attempt that begins or ends needs. */
export interface ReportedRows<R extends Told, W> {
  /** When it is. */
  now: number
  /** Runs one of many events: see `Draft.inParts` of PostgreSQL. */
  part<T>(run: () => T): T | undefined
  find(id: string): R | null
  /**
   * The job that the event brings along is adopted if its id is unknown: it was published natively. If it were not,
   * and the worker leaves the retry to the gateway, the job would be lost as soon as the worker acknowledges its job
   * message.
   */
  findOrAdopt(event: ReportedEvent): R | null
  whole(row: R): W
  job(row: W): JobRow
  /** The usual start: the next attempt of an available job. Null: it is another case. */
  startNext(event: ReportedEvent): JobRow | null
  /** The usual ends: of the running attempt, or of the next one of an available job. Null: it is another case. */
  completeAtOnce(event: ReportedEvent, said: Completed): ReportResult | null
  /** Starts the attempt that the event is about. */
  begin(row: W, event: ReportedEvent, beginning: Beginning): W
  /** `isTimed`: it is known when it began. */
  complete(row: W, event: ReportedEvent, said: Completed, isTimed: boolean): Ended
  fail(row: W, said: Failed): Ended & { isCounted: boolean }
  /** Fills in the error of an attempt that was recorded without a report. False: there is nothing to fill in. */
  amend(event: ReportedEvent, said: Failed): boolean
  /** Its job message is back. */
  expire(row: R): Ended
  /** Null: the worker does not have it. */
  release(row: R, event: ReportedEvent, messageAttempt: number): JobRow | null
  /** The lease goes on without its message, if the gateway has that. Returns the row as it is then. */
  leaveToLedger(row: R): R
  /** The message is back; a copy that its nack was to make must be published. False: it was not out. */
  acknowledge(row: R, attempt: number): boolean
  /** The message is back by the nack that makes the copy. */
  messageReturned(row: R, attempt: number): void
}

/**
 * Applies one report. A start whose end is in the same report is not written separately: the end implies it,
 * which spares half of the writes for short jobs.
 */
export function applyEach<R extends Told, W>(
  rows: ReportedRows<R, W>,
  events: readonly ReportedEvent[],
): ReportResult[] {
  const ends = endsIn(events)
  const merged = new Map<string, number>()
  const results: ReportResult[] = []
  for (const [i, event] of events.entries()) {
    const isMerged = event.said.event === 'started' && ends.has(keyOf(event))
    if (isMerged) merged.set(keyOf(event), i)
    // A report brings an unknown job along only with the first event that names it: adopt it here.
    if (isMerged && event.adopt !== undefined) rows.part(() => rows.findOrAdopt(event))
    const result = (isMerged ? null : rows.part(() => apply(rows, event))) ?? IGNORED
    results.push(result)
    if (merged.size === 0 || !('begun' in result && result.begun)) continue
    const start = merged.get(keyOf(event))
    if (start !== undefined) results[start] = { outcome: 'merged' }
  }
  return results
}

function apply<R extends Told, W>(rows: ReportedRows<R, W>, event: ReportedEvent): ReportResult {
  const { said } = event
  switch (said.event) {
    case 'started':
      return start(rows, event)
    case 'dropped':
      return noteDropped(rows, event)
    case 'expired':
      return expire(rows, event)
    case 'released':
      return release(rows, event, said.messageAttempt)
    case 'completed':
    case 'failed':
      return end(rows, event, said)
  }
}

function start<R extends Told, W>(rows: ReportedRows<R, W>, event: ReportedEvent): ReportResult {
  const next = rows.startNext(event)
  if (next) return { outcome: 'started', job: next, promoted: false }
  const row = rows.findOrAdopt(event)
  if (isOfAnother(event, row)) return OF_ANOTHER
  const bounded = boundAttempt(event, row)
  const decision = decideReport(bounded, row, rows.now)
  if (row === null || decision.do !== 'start') return unapplied(decision)
  const { begins } = decision
  const job = rows.job(rows.begin(rows.whole(row), bounded, begins))
  return { outcome: 'started', job, promoted: begins.promote }
}

function end<R extends Told, W>(
  rows: ReportedRows<R, W>,
  event: ReportedEvent,
  said: Completed | Failed,
): ReportResult {
  const done = said.event === 'completed' ? rows.completeAtOnce(event, said) : null
  if (done) return done
  const row = rows.findOrAdopt(event)
  if (row === null) return IGNORED
  if (isOfAnother(event, row)) return OF_ANOTHER
  const bounded = boundAttempt(event, row)
  const decision = decideReport(bounded, row, rows.now)
  if (decision.do === 'complete' || decision.do === 'fail')
    return endAttempt(rows, bounded, said, row, decision.begins)
  noteSettled(rows, bounded, said, row)
  if (decision.do !== 'amend') return unapplied(decision)
  return said.event === 'failed' && rows.amend(event, said) ? { outcome: 'amended' } : IGNORED
}

const RESUMED: Beginning = { skipped: [], promote: false }

/** `begins` as in `Decision`. */
function endAttempt<R extends Told, W>(
  rows: ReportedRows<R, W>,
  event: ReportedEvent,
  said: Completed | Failed,
  row: R,
  begins: Beginning | 'resumed' | null,
): ReportResult {
  const known = rows.whole(row)
  // Null: the attempt had started before, and was running, or only its lease had run out.
  const start = begins === 'resumed' ? null : begins
  const running = begins === null ? known : rows.begin(known, event, start ?? RESUMED)
  const begun = start && rows.job(running)
  const promoted = start?.promote ?? false
  if (said.event === 'failed')
    return { outcome: 'failed', ...rows.fail(running, said), begun, promoted }
  // If nobody had reported the start, `startedAt` was set just now and says nothing.
  const isTimed = begins === null || (said.elapsedMs !== undefined && !promoted)
  return { outcome: 'completed', ...rows.complete(running, event, said, isTimed), begun, promoted }
}

/** The same as the expiry of a waiting job, except that its job message is back. */
function expire<R extends Told, W>(rows: ReportedRows<R, W>, event: ReportedEvent): ReportResult {
  const row = rows.findOrAdopt(event)
  if (isOfAnother(event, row)) return OF_ANOTHER
  const decision = decideReport(event, row, rows.now)
  if (row === null || decision.do !== 'expire') return noteDropped(rows, event)
  return { outcome: 'expired', ...rows.expire(row) }
}

/** The worker puts its job message back into the queue: the next execution is the same attempt again. */
function release<R extends Told, W>(
  rows: ReportedRows<R, W>,
  event: ReportedEvent,
  messageAttempt: number,
): ReportResult {
  const row = rows.find(event.id)
  if (isOfAnother(event, row)) return OF_ANOTHER
  if (row === null || decideReport(event, row, rows.now).do !== 'release') return IGNORED
  const job = rows.release(row, event, messageAttempt)
  return job ? { outcome: 'released', job } : IGNORED
}

/**
 * The worker has dropped the job message: an ended row may be pruned, and a running job goes on without it.
 */
function noteDropped<R extends Told, W>(
  rows: ReportedRows<R, W>,
  event: ReportedEvent,
): ReportResult {
  const { id, generation, attempt } = event
  const row = rows.find(id)
  if (isOfAnother(event, row)) return OF_ANOTHER
  if (!row || (generation ?? row.generation) !== row.generation) return IGNORED
  const left = leaveToLedger(rows, event, row)
  return rows.acknowledge(left, attempt) ? { outcome: 'amended' } : IGNORED
}

/** The job is over or runs elsewhere, so the report changes no state; but the worker settles its delivery. */
function noteSettled<R extends Told, W>(
  rows: ReportedRows<R, W>,
  event: ReportedEvent,
  said: Completed | Failed,
  row: R,
): void {
  const settlement = settlementOf(event, said, row)
  if (settlement === 'leave') leaveToLedger(rows, event, row)
  else if (settlement === 'acknowledge') rows.acknowledge(row, event.attempt)
  else if (settlement === 'return') rows.messageReturned(row, event.attempt)
}

/** The lease goes on without its job message: the worker that reports this attempt settles the delivery. */
function leaveToLedger<R extends Told, W>(
  rows: ReportedRows<R, W>,
  { attempt }: ReportedEvent,
  row: R,
): R {
  return attempt === row.attempt ? rows.leaveToLedger(row) : row
}

/** The keys of the attempts whose end is reported in `events`. */
function endsIn(events: readonly ReportedEvent[]): Set<string> {
  const ends = new Set<string>()
  for (const event of events) {
    const { said } = event
    if (said.event === 'completed' || said.event === 'failed') ends.add(keyOf(event))
  }
  return ends
}

function keyOf({ generation, attempt, id }: ReportedEvent): string {
  return attemptKey(generation, attempt, id)
}

function isOfAnother({ ofQueue }: ReportedEvent, row: Pick<JobRow, 'queue'> | null): boolean {
  return ofQueue != null && row !== null && row.queue !== ofQueue
}

function unapplied(decision: Decision): ReportResult {
  return decision.do === 'refuse' ? { outcome: 'refused', reason: 'leased_elsewhere' } : IGNORED
}

/**
 * What becomes of the delivery that the worker settles, where its report changes no state: the job is over or runs
 * elsewhere. `leave`: the lease goes on without the message. `acknowledge`: the message is gone, and a copy that a
 * nack was to make is owed. `return`: the worker nacks it, which makes the copy. Null: nothing.
 */
function settlementOf(
  { generation, attempt }: ReportedEvent,
  said: Completed | Failed,
  row: Told,
): 'leave' | 'acknowledge' | 'return' | null {
  const isOfRow = (generation ?? row.generation) === row.generation && attempt >= row.attempt
  const outcome = said.event === 'failed' ? said.outcome : null
  const isInRetryQueue = outcome?.decision === 'retry' && outcome.rung_ms != null
  if (!row.messageOut || !isOfRow || isInRetryQueue) return null
  if (!isTerminal(row.state)) return 'leave'
  return outcome?.decision === 'discard' ? 'return' : 'acknowledge'
}

/** Twice the default of OJS_MAX_RUNGS. A bound, because workers name these retry queues. */
export const MAX_RECORDED_RETRY_QUEUES = 2_000
