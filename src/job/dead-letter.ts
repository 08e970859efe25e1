import { type ArrivingToken, isWithNative } from './arrival.ts'
import { type Failure, recordedOf } from './error-history.ts'
import { failureOf } from './failure.ts'
import { isHeldByBroker, type JobRow } from './job.ts'

type Fate = Pick<JobRow, 'generation' | 'state' | 'attempt' | 'holder' | 'dueAt' | 'rungMs'>

export interface DyingToken extends ArrivingToken {
  /** It was in its queue, in nobody's hands: the queue's TTL or length limit took it. */
  wasInQueue: boolean
}

/**
 * May a token that died in the broker (nacked natively, expired, pushed out of its queue, over the
 * delivery limit) take its job with it? Only the token that the job was waiting for, or the one
 * that a native worker had; a later attempt than expected is one of a native worker that reported
 * nothing in between (seed 002 §15.4), and the arrival table would have claimed it too. One that
 * waited in a rung or level counts before its time as well: a policy's TTL or a clock that was set
 * back brings it out early, and there is no other. For any other the job lives on, and the copy says
 * nothing.
 */
export function mayDie(
  token: DyingToken,
  row: Fate,
  context: { now: number; wall: number },
): boolean {
  if (token.generation !== row.generation) return false
  // That row has no token but the one that the native worker had, and it has just died; unless that
  // worker runs the job: what was in the queue then was an old one, or its own that it has lost.
  if (isWithNative(row)) {
    return !token.wasInQueue || row.state !== 'active' || token.attempt > row.attempt
  }
  return token.attempt > row.attempt && (isClaimable(row, context) || isHeldByBroker(row))
}

/**
 * The attempt of this dead token has its failure in `errors` already: its lease ran out, and nobody has
 * begun another since. What rejects it then is mostly who was told so (`ojs.control.claim`: `discard`),
 * or the worker that has it, when it was heard of again.
 */
export function hasFailedBefore(
  { attempt }: Pick<ArrivingToken, 'attempt'>,
  row: Pick<JobRow, 'state' | 'holder' | 'attempt' | 'error' | 'errors'>,
): boolean {
  if (!isWithNative(row) || attempt > row.attempt) return false
  return row.state === 'active' ? recordedOf(row) !== null : row.error !== null
}

/** The broker's timer and ours drift apart by some ms over the longest rung. */
const DRIFT_MS = 1_000

/**
 * Might its token be out of its rung or level? A retry is due by the clock, a schedule by the wall
 * (architecture §2, "Time").
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

/** `error` of a job that nobody ran in time, whatever an attempt before had: JSON text. */
export const EXPIRED = JSON.stringify({
  code: 'expired',
  type: 'expired',
  message: 'The time of the job (expires_at) was over before it could run.',
  retryable: false,
})

/**
 * `error` of a job that nobody here has run, and that came as an attempt beyond its last: JSON text. Of
 * those before it nothing is known, so there is none of them in `errors`. A native worker may run it all
 * the same, and then this is gone with the end of that attempt.
 */
export function attemptsExhausted(attempt: number, allowed: number): string {
  const times = allowed === 1 ? 'once' : `${allowed} times`
  return JSON.stringify(
    failureOf({
      code: 'attempts_exhausted',
      message: `The message names attempt ${attempt} (x-ojs-attempt) of a job that may run ${times}.`,
      retryable: false,
    }),
  )
}

const BROKER_MESSAGES = {
  rejected: 'A native worker rejected the job (basic.nack without requeue).',
  expired: 'The message expired in its queue (expiration or x-message-ttl).',
  maxlen: 'The queue was full and RabbitMQ dropped the message (x-max-length).',
  delivery_limit: 'RabbitMQ gave up after too many deliveries (x-delivery-limit).',
} as const

/**
 * The error record of a job that died in the broker. A nack carries no reason, and the `x-ojs-error-*`
 * headers of the message are those of the attempt before (seed 002 §8.3).
 */
export function brokerFailure(reason: keyof typeof BROKER_MESSAGES): Failure {
  // What died in the broker is not tried again.
  return failureOf({ code: reason, message: BROKER_MESSAGES[reason], retryable: false })
}
