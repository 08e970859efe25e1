/** What a native worker's report does to a row, whatever its order (docs/architecture.md §5). */
import { between, isPromotedByStart, isWaitingWithNative } from '../arrival.ts'
import {
  allowedAttempts,
  isErased,
  isLeaseLive,
  isTerminal,
  type JobRow,
  type NewJob,
} from '../job.ts'
import type { ReportEvent } from '../request.ts'
import { chooseDelay } from '../retry/backoff.ts'
import type { Failure } from '../retry/error-history.ts'
import type { ReportedError } from '../retry/failure.ts'
import { judge, type RetryPolicy, retryPolicyOf } from '../retry/retry-policy.ts'

/*
 * What a native worker's report does to a row, decided by the row alone (docs/architecture.md §5). Reports
 * may come late, twice, in any order or not at all. An event counts only if it goes beyond what the row
 * knows, so that every order of the same events ends in the same state.
 */

export interface ReportedEvent {
  id: string
  /** Null: the worker named none, and the row's generation is meant. */
  generation: number | null
  attempt: number
  workerId: string
  /** The event counts only for a job of this queue; absent: of any. */
  ofQueue?: string | null
  said: Said
  /**
   * Present if the report brought the job along: makes a job for an id that the ledger does not know. Throws
   * `OjsError` when it is not an OJS job.
   */
  adopt?: () => NewJob
  /** Reads the failure of the attempt before this one from the job's headers. */
  reportedError?: () => ReportedError | null
  /** The body that the report brought along, as it came, and the queue that the worker serves. */
  shown?: { queue: string; body: object }
  /** True: made by the gateway in the place of an event that is not valid. */
  isStandIn?: boolean
}

/** What the event says, with texts already bounded in size (`job/retry/failure.ts`). */
export type Said =
  | { event: 'started' }
  /**
   * The worker acknowledged the job message without a run, or after a cancelled one: only the message is
   * back.
   */
  | { event: 'dropped' }
  /** No attempt was made: the job message came after the job's `expires_at`. */
  | { event: 'expired' }
  /**
   * The worker gives the delivery back: the attempt does not count. `messageAttempt`: the job message's own.
   */
  | { event: 'released'; messageAttempt: number }
  /** `elapsedMs`: run time by the worker's clock, if it reported the start time as well. */
  | { event: 'completed'; result: string | null; elapsedMs?: number }
  | { event: 'failed'; failure: Failure; outcome: Outcome | null }

type Outcome = NonNullable<Extract<ReportEvent, { event: 'failed' }>['outcome']>

/**
 * - `ignore`: the row is past this event, or it is about another generation.
 * - `refuse`: it would end, or begin anew, what runs under the live lease of another worker over HTTP.
 * - `expire`: discard the job, which no worker runs or will run.
 * - `release`: make the job available again; the worker that runs it gives it back.
 * - `amend`: too late to change the state. If the attempt was recorded without its worker's error, fill the
 *   error in.
 * - `start`, `complete`, `fail`: apply the event. `begins` says whether the attempt has to be started first.
 *   Null: it runs already; `resumed`: it ran and only its lease had run out; else the start that the row has
 *   not seen. `skipped` lists the attempts before it that ended without a report, and `promote` says that
 *   the job became available by its due time in the same step.
 */
export type Decision =
  | { do: 'ignore' | 'refuse' | 'amend' | 'expire' | 'release' }
  | { do: 'start'; begins: Beginning }
  | { do: 'complete' | 'fail'; begins: Beginning | 'resumed' | null }

/** A start that the row has not seen. */
export interface Beginning {
  skipped: readonly number[]
  promote: boolean
}

/**
 * Why what a control message says about a job does not count, though it is valid and new.
 *
 * - `other_queue`: the job is not of the queue whose control queue the message came by.
 * - `leased_elsewhere`: another worker has the job's live lease, and is not a native one.
 */
export type Refusal = 'other_queue' | 'leased_elsewhere'

/**
 * The event with an attempt that the job may have. No report may use up attempts that nobody made: one beyond
 * the last is taken for the last. A job that was adopted from a job message with such a number may have that.
 */
export function boundAttempt(
  event: ReportedEvent,
  row: Pick<JobRow, 'state' | 'attempt' | 'maxAttempts'> | null,
): ReportedEvent {
  if (row === null) return event
  const next = row.state === 'active' || isTerminal(row.state) ? row.attempt : row.attempt + 1
  const most = Math.max(allowedAttempts(row), next)
  return event.attempt <= most ? event : { ...event, attempt: most }
}

/** A map key for one execution among those that a report names. */
export function attemptKey(generation: number | null, attempt: number, id: string): string {
  return `${generation ?? ''} ${attempt} ${id}`
}

/** What of a row decides. */
export type Fate = Pick<
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
  if (isLeasedElsewhere(event, row, now)) return REFUSE
  if (event.attempt > row.attempt)
    return { do: VERB[said.event], begins: beginningOf(event.attempt, row) }
  if (said.event === 'started') return IGNORE
  return decideCurrent(VERB[said.event], row)
}

const IGNORE: Decision = { do: 'ignore' }
const REFUSE: Decision = { do: 'refuse' }
const VERB = { started: 'start', completed: 'complete', failed: 'fail' } as const

/**
 * An event about an attempt that has ended in the ledger can only fill in its error. This includes the last
 * attempt of a discarded job: the worker rejects the delivery right after it reports, and the dead letter
 * copy may reach the gateway before the report.
 */
function late({ attempt, said }: ReportedEvent, row: Fate): Decision {
  const isOver = attempt < row.attempt || (attempt === row.attempt && row.state === 'discarded')
  return said.event === 'failed' && isOver ? { do: 'amend' } : IGNORE
}

/**
 * True when the expired job message was the one that the job waited for, or the one that a native worker had.
 * The worker has acknowledged it, so the job is over whatever the gateway's clock says. Not for an active
 * job: the worker that runs it goes on.
 */
function mayExpire({ attempt }: ReportedEvent, row: Fate): boolean {
  if (row.expiresAt === null || row.state === 'active' || isTerminal(row.state)) return false
  return attempt > row.attempt || (attempt === row.attempt && row.holder === 'native')
}

/**
 * True when the reporting worker still has the lease. Holder `gateway`: another worker has got the job from
 * this gateway since. Holder `ledger` is allowed: the released job message may have reached this gateway
 * before the report did, and the gateway then handed the lease over to the ledger.
 */
function mayRelease({ attempt, workerId }: ReportedEvent, row: Fate): boolean {
  if (row.state !== 'active' || attempt !== row.attempt || workerId !== row.workerId) return false
  return row.holder === 'native' || row.holder === 'ledger'
}

/** Decides about the end of the attempt that the row has counted: it applies while that attempt runs. */
function decideCurrent(verb: 'complete' | 'fail', row: Fate): Decision {
  if (isWaitingWithNative(row)) return { do: verb, begins: 'resumed' }
  // A later attempt was given back, so this attempt, which ended before it, was recorded without a report.
  if (row.state === 'available' && verb === 'fail') return { do: 'amend' }
  return row.state === 'active' ? { do: verb, begins: null } : IGNORE
}

/**
 * True when the job runs under the live lease of another worker, over HTTP: that worker ends it, or the end
 * of its lease does. Does not apply when the holder is native: reports of native workers come in any order,
 * and a start may be reported after the end of the next attempt.
 */
function isLeasedElsewhere({ workerId }: ReportedEvent, row: Fate, now: number): boolean {
  const isHeldHere = row.state === 'active' && row.holder !== 'native'
  return isHeldHere && row.workerId !== workerId && isLeaseLive(row, now)
}

/**
 * The start of an attempt that the row has not counted. As in the arrival table: one that the row shows as running
 * has ended without a report.
 */
export function beginningOf(attempt: number, row: Pick<JobRow, 'state' | 'attempt'>): Beginning {
  const after = row.state === 'active' ? row.attempt - 1 : row.attempt
  return { skipped: between(after, attempt), promote: isPromotedByStart(row) }
}

/** What happens to a row whose attempt failed. */
export type FailurePlan =
  | { to: 'retryable'; dueAt: number; delayMs: number; retryQueueMs: number | null }
  | { to: 'discarded'; isDeadLetter: boolean; copy: 'nack' | 'publish' }

/**
 * Follows the worker's own decision if it made one: the worker has the delivery, and has published the next
 * job message if it names a retry queue. Otherwise decides by the job's policy: the worker then only
 * acknowledges, so the ledger owes the next message (when it is due) or the copy in the DLX queue. `row` runs
 * the attempt.
 */
export function planFailure(
  row: JobRow,
  { failure, outcome }: Extract<Said, { event: 'failed' }>,
  context: { now: number; random: () => number },
): FailurePlan {
  const { now, random } = context
  const policy = retryPolicyOf(row)
  const retry = outcome?.decision === 'retry' ? outcome : null
  // A job message in a retry queue is there, whatever the row says: it is judged when it arrives.
  if (retry !== null && (retry.rung_ms != null || row.attempt < allowedAttempts(row))) {
    const delayMs = boundDelay(retry, policy)
    return { to: 'retryable', dueAt: now + delayMs, delayMs, retryQueueMs: retry.rung_ms ?? null }
  }
  const verdict = judge(policy, row.attempt, failure)
  if (outcome === null && verdict.do === 'retry') {
    const { delayMs } = chooseDelay(policy.backoff, row.attempt, random)
    return { to: 'retryable', dueAt: now + delayMs, delayMs, retryQueueMs: null }
  }
  const isDeadLetter =
    verdict.do === 'discard' ? verdict.isDeadLetter : policy.onExhaustion !== 'discard'
  // Only a worker that decides to discard nacks its delivery.
  const copy = outcome?.decision === 'discard' ? 'nack' : 'publish'
  return { to: 'discarded', isDeadLetter, copy }
}

/** A worker may wait longer than the job's policy, but must not put a job off for years. */
const MAX_RETRY_DELAY_MS = 86_400_000

function boundDelay(
  { delay_ms: delayMs, rung_ms: retryQueueMs }: Extract<Outcome, { decision: 'retry' }>,
  { backoff }: RetryPolicy,
): number {
  return Math.min(delayMs, Math.max(MAX_RETRY_DELAY_MS, backoff.maxMs, retryQueueMs ?? 0))
}
