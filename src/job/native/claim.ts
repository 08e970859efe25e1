/** May a native worker run a redelivered message? The arrival table for native workers. */
import { type ArrivingMessage, isCurrent, isWaitingWithNative } from '../arrival.ts'
import { allowedAttempts, isExpired, isLeaseLive, isTerminal, type JobRow } from '../job.ts'

/** A redelivered job message that a native worker holds (docs/architecture.md §5, `ojs.control.claim`). */
export interface NativeMessage extends ArrivingMessage {
  workerId: string
}

export interface NativeClaimContext {
  now: number
  wall: number
  /** True for an unknown id that was cancelled before its job message came. */
  isTombstoned: boolean
  /** True when this gateway holds the delivery behind the row's lease. */
  isHeldHere: boolean
}

/**
 * What the worker shall do with the job message.
 *
 * - `run`: run the job as attempt `attempt`.
 * - `drop`: acknowledge. `handOver`: first make the ledger the lease's only holder, because the message
 *   that the worker is about to acknowledge is the one behind the lease. `isOver`: the job has ended, so its
 *   message is back with this acknowledgement.
 * - `discard`: `basic.nack requeue=false`.
 */
export type NativeClaimDecision =
  | { decision: 'run'; attempt: number }
  | { decision: 'drop'; handOver: boolean; isOver: boolean }
  | { decision: 'discard' }

/** What of a row decides. */
export type Fate = Pick<
  JobRow,
  | 'generation'
  | 'state'
  | 'attempt'
  | 'maxAttempts'
  | 'holder'
  | 'workerId'
  | 'leaseExpiresAt'
  | 'expiresAt'
  | 'deadLetterCopied'
>

/**
 * Decides whether a native worker may run this job message: the arrival table for native workers. Changes
 * nothing: the worker's `started` event counts the attempt.
 */
export function decideNativeClaim(
  jobMessage: NativeMessage,
  row: Fate | null,
  context: NativeClaimContext,
): NativeClaimDecision {
  if (row === null) {
    return context.isTombstoned ? DROP : { decision: 'run', attempt: jobMessage.attempt }
  }
  if (jobMessage.generation < row.generation) return DROP
  // The copy in the DLX queue is still owed: this job message's nack makes it, whatever its attempt.
  if (row.state === 'discarded' && !row.deadLetterCopied) return { decision: 'discard' }
  if (isTerminal(row.state)) return { ...DROP, isOver: true }
  if (row.state === 'pending') return DROP
  if (isCurrent(jobMessage, row)) return decideCurrent(jobMessage, row, context)
  return jobMessage.attempt < row.attempt ? DROP : decideNext(jobMessage, row, context)
}

const DROP = { decision: 'drop', handOver: false, isOver: false } as const

/** A job message of the attempt that the row has counted: the worker that had it has lost the delivery. */
function decideCurrent(
  { workerId }: NativeMessage,
  row: Fate,
  context: NativeClaimContext,
): NativeClaimDecision {
  const isRunning = row.state === 'active'
  // Another worker was told to drop the message, so it may be gone: an attempt that begins now would have none.
  if (isRunning && row.holder === 'ledger') return DROP
  if (isRunning && row.workerId !== workerId && isLeaseLive(row, context.now)) {
    return { ...DROP, handOver: !context.isHeldHere }
  }
  const mayRun = isRunning || isWaitingWithNative(row)
  return mayRun ? runOrDiscard(row, row.attempt + 1, context) : DROP
}

/** A job message of an attempt that the row has not counted yet. */
function decideNext(
  { attempt }: NativeMessage,
  row: Fate,
  context: NativeClaimContext,
): NativeClaimDecision {
  const isLeasedHere = row.state === 'active' && row.holder !== 'native'
  // The job runs under a live lease; its next transition publishes a new job message.
  if (isLeasedHere && isLeaseLive(row, context.now)) return DROP
  return runOrDiscard(row, attempt, context)
}

function runOrDiscard(
  row: Fate,
  attempt: number,
  { wall }: NativeClaimContext,
): NativeClaimDecision {
  const isOver = isExpired(row, wall) || attempt > allowedAttempts(row)
  return isOver ? { decision: 'discard' } : { decision: 'run', attempt }
}

/** True if an earlier claim of this very message has begun the attempt, and its answer was lost. */
export function isBegunFor(
  { generation, attempt, workerId }: NativeMessage,
  row: Pick<JobRow, 'state' | 'holder' | 'workerId' | 'generation' | 'attempt'>,
): boolean {
  const isOwn = row.state === 'active' && row.holder === 'native' && row.workerId === workerId
  return isOwn && row.generation === generation && row.attempt >= attempt
}
