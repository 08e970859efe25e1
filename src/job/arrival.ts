/** The arrival table: what a message may do, decided by its row alone (docs/architecture.md §2). */
import { allowedAttempts, isExpired, isTerminal, type JobRow } from './job.ts'

/** A job message as RabbitMQ delivered it: `generation` from its body, `attempt` from its header. */
export interface ArrivingMessage {
  /**
   * The queue that it came from, if known: a job message from another queue than its job's is no message of
   * it.
   */
  queue?: string
  generation: number
  /** `x-ojs-attempt`: the execution that this job message will cause (seed 002 §6.2, 1-based). */
  attempt: number
}

/**
 * What a job message may do, decided by its row alone (docs/architecture.md §2, arrival table).
 *
 * - `drop`: acknowledge and forget.
 * - `dead-letter`: `basic.nack requeue=false`, because the copy in the DLX queue is still owed.
 * - `keep`: this very delivery is the one held for the lease; nothing to do.
 * - `hand-over`: acknowledge; the lease lives on in the ledger alone.
 * - `claim`: start attempt `attempt`. `skipped` lists attempts that ended without a report, and
 *   `promote` says that the row became available by its due time in the same step.
 * - `exhaust`: the job may not run again; take the exhaustion path. `skipped` as for `claim`.
 * - `expire`: `expires_at` has passed; the job is discarded and the message dropped.
 * - `hold`: keep the delivery unacknowledged until `until`, or until the row changes (null).
 * - `rearm`: acknowledge and write a new outbox; the ledger publishes it when due.
 *
 * A message without a row is no case of this table: the ledger first stores its job (`adopt.ts`), as if
 * it had been waiting for exactly this message.
 */
export type Arrival =
  | { do: 'drop' | 'dead-letter' | 'keep' | 'hand-over' | 'expire' | 'rearm' }
  | { do: 'claim'; attempt: number; skipped: readonly number[]; promote: boolean }
  | { do: 'exhaust'; skipped: readonly number[] }
  | { do: 'hold'; until: number | null }

type Fate = Pick<
  JobRow,
  | 'generation'
  | 'state'
  | 'attempt'
  | 'maxAttempts'
  | 'holder'
  | 'dueAt'
  | 'expiresAt'
  | 'deadLetterCopied'
>

export interface ArrivalContext {
  /** Clock time; what a retry's due time is measured on. */
  now: number
  /** Wall time; what `scheduled_at` and `expires_at` mean (docs/architecture.md §2, "Time"). */
  wall: number
  /** True when exactly this delivery is the one held for the row's lease. */
  isHeldDelivery: boolean
}

/**
 * A job message that is earlier than this is acknowledged and owed again, as it would occupy a prefetch slot.
 */
const MAX_HOLD_MS = 60_000

/**
 * The arrival table, in its order (docs/architecture.md §2). Pure; the caller writes the decision, fenced by
 * the row that it read.
 */
export function decideArrival(
  jobMessage: ArrivingMessage,
  row: Fate,
  context: ArrivalContext,
): Arrival {
  if (jobMessage.generation < row.generation) return { do: 'drop' }
  // RabbitMQ does not confirm the `basic.nack` of a discard: repeat it until the copy is recorded. The
  // job message's attempt does not matter, as a native worker may have run the message as a later
  // attempt.
  if (row.state === 'discarded' && !row.deadLetterCopied) return { do: 'dead-letter' }
  if (isTerminal(row.state) || row.state === 'pending') return { do: 'drop' }
  if (isCurrent(jobMessage, row)) return decideCurrent(row, context)
  if (jobMessage.attempt < row.attempt) return { do: 'drop' }
  return decideNext(jobMessage, row, context)
}

/** True for a job message with the id of a job of another queue: it is no message of that job. */
export function isFromElsewhere(
  jobMessage: Pick<ArrivingMessage, 'queue'>,
  row: Pick<JobRow, 'queue'>,
): boolean {
  return jobMessage.queue !== undefined && jobMessage.queue !== row.queue
}

/**
 * True for the job message of the attempt that the row has counted. A native worker's message keeps its
 * attempt number when it is redelivered and run as a later attempt (`ojs.control.claim`). It is then the only
 * message of the job, and must not count as old.
 */
export function isCurrent(jobMessage: ArrivingMessage, row: NativeFate): boolean {
  return (
    jobMessage.attempt === row.attempt || (jobMessage.attempt < row.attempt && isWithNative(row))
  )
}

type NativeFate = Pick<JobRow, 'state' | 'attempt' | 'holder'>

/**
 * True when the only job message is a native worker's: its attempt runs, or the job waits for this very
 * message.
 */
export function isWithNative(row: Pick<JobRow, 'state' | 'holder'>): boolean {
  return isWaitingWithNative(row) || (row.holder === 'native' && row.state === 'active')
}

/**
 * True when the job is `available`, but its only job message is a native worker's: its lease ran out and the
 * worker still has the message, or it has requeued a message whose attempt number is an earlier one.
 */
export function isWaitingWithNative({ state, holder }: Pick<JobRow, 'state' | 'holder'>): boolean {
  return state === 'available' && holder === 'native'
}

/** RabbitMQ's timers and the gateway's clock drift apart by some ms over the longest retry queue. */
const DRIFT_MS = 1_000

/**
 * True when the job's message may have left its retry queue. A retry is due by clock time, a schedule by
 * wall time (docs/architecture.md §2, "Time").
 */
export function isClaimable(
  row: Pick<JobRow, 'state' | 'dueAt'>,
  { now, wall }: { now: number; wall: number },
): boolean {
  if (row.state === 'available') return true
  const dueAt = row.dueAt ?? 0
  return (
    (row.state === 'retryable' && dueAt <= now + DRIFT_MS) ||
    (row.state === 'scheduled' && dueAt <= wall)
  )
}

/** The job message of the attempt that the row already counted. */
function decideCurrent(row: Fate, context: ArrivalContext): Arrival {
  if (row.state === 'active') return { do: context.isHeldDelivery ? 'keep' : 'hand-over' }
  if (isWaitingWithNative(row)) {
    return claimOrEnd(row, row.attempt + 1, [], context)
  }
  return { do: 'drop' }
}

/** A job message of an attempt that has not started yet. */
function decideNext(jobMessage: ArrivingMessage, row: Fate, context: ArrivalContext): Arrival {
  if (row.state === 'available') {
    return claimOrEnd(row, jobMessage.attempt, between(row.attempt, jobMessage.attempt), context)
  }
  if (row.state === 'active') {
    // A native worker that got a later attempt has lost the earlier one without reporting it.
    return row.holder === 'native'
      ? claimOrEnd(row, jobMessage.attempt, between(row.attempt - 1, jobMessage.attempt), context)
      : { do: 'hold', until: null }
  }
  const earlyMs = (row.dueAt ?? 0) - (row.state === 'scheduled' ? context.wall : context.now)
  if (earlyMs > MAX_HOLD_MS) return { do: 'rearm' }
  // A parked delivery waits by clock time, while a schedule's `dueAt` is wall time: they differ after a step
  // of the wall clock, so the remaining time is added to `now`.
  if (earlyMs > 0) return { do: 'hold', until: context.now + earlyMs }
  return claimOrEnd(row, jobMessage.attempt, between(row.attempt, jobMessage.attempt), context)
}

function claimOrEnd(
  row: Fate,
  attempt: number,
  skipped: readonly number[],
  context: ArrivalContext,
): Arrival {
  if (isExpired(row, context.wall)) return { do: 'expire' }
  if (attempt > allowedAttempts(row)) return { do: 'exhaust', skipped }
  return { do: 'claim', attempt, skipped, promote: isPromotedByStart(row) }
}

/** True when the job is due but was not made available yet: starting it does that as well. */
export function isPromotedByStart({ state }: Pick<JobRow, 'state'>): boolean {
  return state === 'retryable' || state === 'scheduled'
}

/** Bounds the list, as a foreign header may name any attempt. More than `errors` of a job keeps. */
const MAX_SKIPPED = 100

/** The skipped attempts: those strictly between two numbers. */
export function between(after: number, before: number): number[] {
  const list: number[] = []
  for (let n = after + 1; n < before && list.length < MAX_SKIPPED; n++) list.push(n)
  return list
}
