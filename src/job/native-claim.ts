import { type ArrivingToken, isCurrent, isWaitingWithNative } from './arrival.ts'
import { allowedAttempts, isExpired, isTerminal, type JobRow } from './job.ts'
import { isLeaseLive } from './report.ts'

/** A redelivered token in the hands of a native worker (architecture §5, `ojs.control.claim`). */
export interface NativeToken extends ArrivingToken {
  workerId: string
}

export interface NativeClaimContext {
  now: number
  wall: number
  /** An unknown id was cancelled before its token came. */
  isTombstoned: boolean
  /** The delivery behind the row's lease is in this gateway's hands. */
  isHeldHere: boolean
}

/**
 * - `run`: as attempt `attempt`.
 * - `drop`: acknowledge. `handOver`: the lease goes on in the ledger alone, because the token that
 *   the worker is about to acknowledge was the one behind it. `isOver`: the row has ended, so this
 *   is its token coming back.
 * - `discard`: `basic.nack requeue=false`.
 */
export type NativeClaimDecision =
  | { decision: 'run'; attempt: number }
  | { decision: 'drop'; handOver: boolean; isOver: boolean }
  | { decision: 'discard' }

type Fate = Pick<
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
 * May a native worker run this token? The arrival table from its side. Nothing is changed yet: the
 * attempt is counted by the worker's `started`.
 */
export function decideNativeClaim(
  token: NativeToken,
  row: Fate | null,
  context: NativeClaimContext,
): NativeClaimDecision {
  if (row === null) {
    return context.isTombstoned ? DROP : { decision: 'run', attempt: token.attempt }
  }
  if (token.generation < row.generation) return DROP
  // Whatever attempt it was run as: the copy is made of it.
  if (row.state === 'discarded' && !row.deadLetterCopied) return { decision: 'discard' }
  if (isTerminal(row.state)) return { ...DROP, isOver: true }
  if (row.state === 'pending') return DROP
  if (isCurrent(token, row)) return decideCurrent(token, row, context)
  return token.attempt < row.attempt ? DROP : decideNext(token, row, context)
}

const DROP = { decision: 'drop', handOver: false, isOver: false } as const

/** The execution that the row has counted: whoever had it has lost this delivery. */
function decideCurrent(
  { workerId }: NativeToken,
  row: Fate,
  context: NativeClaimContext,
): NativeClaimDecision {
  const isRunning = row.state === 'active'
  if (isRunning && row.workerId !== workerId && isLeaseLive(row, context.now)) {
    return { ...DROP, handOver: !context.isHeldHere }
  }
  const mayRun = isRunning || isWaitingWithNative(row)
  return mayRun ? runOrDiscard(row, row.attempt + 1, context) : DROP
}

/** The next execution. */
function decideNext(
  { attempt }: NativeToken,
  row: Fate,
  context: NativeClaimContext,
): NativeClaimDecision {
  const isLeasedHere = row.state === 'active' && row.holder !== 'native'
  // That row's next transition publishes a token of its own.
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
