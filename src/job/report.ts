import { between, isPromotedByStart, isWaitingWithNative, type ReportedError } from './arrival.ts'
import { chooseDelay } from './backoff.ts'
import type { Failure } from './error-history.ts'
import { isErased, isTerminal, type JobRow, type NewJob } from './job.ts'
import type { ReportEvent } from './request.ts'
import { judge, retryPolicyOf } from './retry-policy.ts'

/**
 * What a native worker's report does to its row, decided by nothing but the row (architecture §5).
 * Reports may come late, twice, in any order or not at all: an event counts only where it says more
 * than the row knows, so that every order of the same events ends in the same state.
 */

export interface ReportedEvent {
  id: string
  /** Null: the worker did not say; the row's own. */
  generation: number | null
  attempt: number
  workerId: string
  said: Said
  /**
   * For an id that the ledger does not know, where the report brought the job along. Throws
   * `OjsError` when it is not an OJS job.
   */
  adopt?: () => NewJob
  /** What the job's headers say of the attempt before this one. */
  reportedError?: () => ReportedError | null
  /** The same job as it came, and the queue that its worker serves. */
  shown?: { queue: string; body: object }
  /** Nobody has said it: it takes the place of what could not be read. */
  isStandIn?: boolean
}

/** Bounded already: JSON text and `job/failure.ts`. */
export type Said =
  | { event: 'started' }
  /** Says nothing of the job: its token is back. */
  | { event: 'dropped' }
  /** No attempt was made: it came after the job's `expires_at`. */
  | { event: 'expired' }
  /** The worker gives the delivery back: the attempt does not count. `tokenAttempt`: its header. */
  | { event: 'released'; tokenAttempt: number }
  /** `elapsedMs`: by the worker's clock, where it tells of the start as well. */
  | { event: 'completed'; result: string | null; elapsedMs?: number }
  | { event: 'failed'; failure: Failure; outcome: Outcome | null }

type Outcome = NonNullable<Extract<ReportEvent, { event: 'failed' }>['outcome']>

/**
 * - `ignore`: old news, or not of this life.
 * - `expire`: nobody runs it, and nobody will.
 * - `release`: the attempt that runs is given back by the worker that has it.
 * - `amend`: too late to count, but the attempt may be recorded without a word of its worker.
 * - else it applies. `begins`: whether the attempt has to be started first. Null: it runs already;
 *   `resumed`: it ran, and only its lease had run out; else the start that the row has not seen.
 *   `skipped` lists the attempts before it that ended without a report, and `promote` says that the
 *   job became available by its due time in the same step.
 */
export type Decision =
  | { do: 'ignore' | 'amend' | 'expire' | 'release' }
  | { do: 'start'; begins: Beginning }
  | { do: 'complete' | 'fail'; begins: Begins }

/** A start that the row has not seen. */
export interface Beginning {
  skipped: readonly number[]
  promote: boolean
}

export type Begins = Beginning | 'resumed' | null

/** One execution, of all that a message may tell of. */
export function attemptKey(generation: number | null, attempt: number, id: string): string {
  return `${generation ?? ''} ${attempt} ${id}`
}

type Fate = Pick<
  JobRow,
  'generation' | 'state' | 'attempt' | 'holder' | 'workerId' | 'leaseExpiresAt' | 'expiresAt'
>

export function decideReport(event: ReportedEvent, row: Fate | null, now: number): Decision {
  const { said } = event
  if (said.event === 'dropped') return IGNORE
  if (row === null || isErased(row.state) || row.state === 'pending') return IGNORE
  if (event.generation !== null && event.generation !== row.generation) return IGNORE
  if (said.event === 'expired') return mayExpire(event, row) ? { do: 'expire' } : IGNORE
  if (said.event === 'released') return mayRelease(event, row) ? { do: 'release' } : IGNORE
  if (isTerminal(row.state) || event.attempt < row.attempt) return late(event, row)
  if (event.attempt > row.attempt) return { do: VERB[said.event], begins: beginning(event, row) }
  if (said.event === 'started') return IGNORE
  return decideCurrent(event, VERB[said.event], row, now)
}

const IGNORE: Decision = { do: 'ignore' }
const VERB = { started: 'start', completed: 'complete', failed: 'fail' } as const

/**
 * An attempt that is over for us may still have a word to say on why. Of the last one RabbitMQ may
 * have told first: the worker rejects its delivery right behind the report, on another way to us.
 */
function late({ attempt, said }: ReportedEvent, row: Fate): Decision {
  const isOver = attempt < row.attempt || (attempt === row.attempt && row.state === 'discarded')
  return said.event === 'failed' && isOver ? { do: 'amend' } : IGNORE
}

/**
 * The token was the one that the job waited for, or the one that a native worker had: it is gone
 * with the worker's word, whatever our clock says. Whoever runs the job goes on.
 */
function mayExpire({ attempt }: ReportedEvent, row: Fate): boolean {
  if (row.expiresAt === null || row.state === 'active' || isTerminal(row.state)) return false
  return attempt > row.attempt || (attempt === row.attempt && row.holder === 'native')
}

/**
 * Whoever has the job since is another worker, or has it from us. Its token may have come to us
 * before this word did: then the lease is the ledger's alone by now.
 */
function mayRelease({ attempt, workerId }: ReportedEvent, row: Fate): boolean {
  if (row.state !== 'active' || attempt !== row.attempt || workerId !== row.workerId) return false
  return row.holder === 'native' || row.holder === 'ledger'
}

/** The end of the attempt that the row has counted: it is news while that runs. */
function decideCurrent(
  event: ReportedEvent,
  verb: 'complete' | 'fail',
  row: Fate,
  now: number,
): Decision {
  if (isWaitingWithNative(row)) return { do: verb, begins: 'resumed' }
  // It ended unreported before the one that was given back.
  if (row.state === 'available' && verb === 'fail') return { do: 'amend' }
  if (row.state !== 'active') return IGNORE
  if (verb === 'fail' && isLeasedElsewhere(event, row, now)) return IGNORE
  return { do: verb, begins: null }
}

/**
 * The same attempt runs elsewhere, under a lease: a second delivery of its token that failed here
 * must not end it. (Had it succeeded here, the job would be done.) Not so among native workers: their
 * reports come in any order, and a start may be told behind the end of the next one.
 */
function isLeasedElsewhere({ workerId }: ReportedEvent, row: Fate, now: number): boolean {
  return row.holder !== 'native' && row.workerId !== workerId && isLeaseLive(row, now)
}

export function isLeaseLive({ leaseExpiresAt }: Pick<JobRow, 'leaseExpiresAt'>, now: number) {
  return leaseExpiresAt !== null && leaseExpiresAt > now
}

/** As in the arrival table: an attempt that still ran, by our books, has ended without a report. */
function beginning({ attempt }: ReportedEvent, row: Fate): Beginning {
  const after = row.state === 'active' ? row.attempt - 1 : row.attempt
  return { skipped: between(after, attempt), promote: isPromotedByStart(row) }
}

/** What becomes of a row whose attempt failed; `row` runs that attempt. */
export type FailurePlan =
  | { to: 'retryable'; dueAt: number; delayMs: number; rungMs: number | null }
  | { to: 'discarded'; isDeadLetter: boolean; copy: 'nack' | 'publish' }

/**
 * The worker's own decision where it made one: it has the delivery in hand, and has published the
 * next token if it names a rung. Else ours: the worker only acknowledges, so the ledger owes the
 * token (when it is due) or the copy in the DLX queue.
 */
export function planFailure(
  row: JobRow,
  { failure, outcome }: Extract<Said, { event: 'failed' }>,
  context: { now: number; random: () => number },
): FailurePlan {
  const { now, random } = context
  if (outcome?.decision === 'retry') {
    const { delay_ms: delayMs, rung_ms: rungMs } = outcome
    return { to: 'retryable', dueAt: now + delayMs, delayMs, rungMs: rungMs ?? null }
  }
  const policy = retryPolicyOf(row)
  const verdict = judge(policy, row.attempt, failure)
  if (outcome === null && verdict.do === 'retry') {
    const { delayMs } = chooseDelay(policy.backoff, row.attempt, random)
    return { to: 'retryable', dueAt: now + delayMs, delayMs, rungMs: null }
  }
  const isDeadLetter =
    verdict.do === 'discard' ? verdict.isDeadLetter : policy.onExhaustion !== 'discard'
  return { to: 'discarded', isDeadLetter, copy: outcome === null ? 'publish' : 'nack' }
}
