/** May a message that died in RabbitMQ discard its job, and with which error? */
import { type ArrivingMessage, isClaimable, isWithNative } from './arrival.ts'
import { isHeldByBroker, type JobRow } from './job.ts'
import { type Failure, recordedOf } from './retry/error-history.ts'
import { failureOf } from './retry/failure.ts'

type Fate = Pick<JobRow, 'generation' | 'state' | 'attempt' | 'holder' | 'dueAt' | 'retryQueueMs'>

export interface DyingMessage extends ArrivingMessage {
  /** True when the queue's TTL or length limit removed it: it was in the queue, not with a consumer. */
  wasInQueue: boolean
}

/**
 * Decides whether a job message that died in RabbitMQ (nacked natively, expired, dropped by a length limit,
 * over the delivery limit) discards its job. It does only if it was the message that the job waited for, or
 * the one that a native worker had. A later attempt than expected counts too: it comes from a native worker
 * that reported nothing in between (seed 002 §15.4), and the arrival table would have claimed it. A message
 * that waited in a retry queue, or for its schedule, counts even before its time: a policy's TTL or a clock
 * that was set back may bring it out early, and the job has no other. For any other message the job goes on.
 */
export function mayDie(
  jobMessage: DyingMessage,
  row: Fate,
  context: { now: number; wall: number },
): boolean {
  if (jobMessage.generation !== row.generation) return false
  // The row's only job message is the one that the native worker had. It is the one that died, unless the
  // worker runs the job and the dead message was in the queue: that was an old message, or one that
  // the worker had lost.
  if (isWithNative(row)) {
    return !jobMessage.wasInQueue || row.state !== 'active' || jobMessage.attempt > row.attempt
  }
  return jobMessage.attempt > row.attempt && (isClaimable(row, context) || isHeldByBroker(row))
}

/**
 * True when the failure of this dead job message's attempt is in `errors` already, because its lease ran out
 * and no other attempt has begun since. Such a message is mostly rejected by a worker whose
 * `ojs.control.claim` was answered `discard`, or by the worker that had the lease and came back.
 */
export function hasFailedBefore(
  { attempt }: Pick<ArrivingMessage, 'attempt'>,
  row: Pick<JobRow, 'state' | 'holder' | 'attempt' | 'error' | 'errors'>,
): boolean {
  if (!isWithNative(row) || attempt > row.attempt) return false
  return row.state === 'active' ? recordedOf(row) !== null : row.error !== null
}

/** `error` of a job that expired before it ran, in place of the error of an earlier attempt: JSON text. */
export const EXPIRED = JSON.stringify({
  code: 'expired',
  type: 'expired',
  message: 'The job expired (expires_at) before it could run.',
  retryable: false,
})

/**
 * `error` of an unknown job whose job message names an attempt beyond the last allowed one: JSON text.
 * Nothing is known of the attempts before, so `errors` has none of them. A native worker may run the job all
 * the same; the end of that attempt then replaces this error.
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
  // A job that died in RabbitMQ is not retried.
  return failureOf({ code: reason, message: BROKER_MESSAGES[reason], retryable: false })
}
