/** The events of reports as JSON text that no gateway refuses: a refused one is lost with all that it tells. */
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { messageOf, OjsError } from '../errors.ts'
import { timestamp } from '../job/document.ts'
import type { Failure } from '../job/retry/error-history.ts'
import { MAX_RESULT_BYTES } from '../job/values/limits.ts'
import { refuseUnkeepable } from '../schemas/json/json-text.ts'
import { jobError } from '../sdk/worker/job-error.ts'
import type { JobError } from '../sdk/worker/source.ts'

/**
 * Size limit of the events in one message, and of an event that shows its job although the gateway could do
 * without (`completed`, for example). Control messages may have 1 MiB, and reports at least 3 KiB more, so
 * that the largest result fits into a message of its own.
 */
export const MAX_EVENT_BYTES = 1024 * 1024 - 4_096
/** Size limit of an event without its result, error and job. */
export const BARE_EVENT_BYTES = 2_048

/** Size limit of an error, so that it fits beside the largest job that is shown with it. */
const MAX_ERROR_BYTES = 100_000

export type EventName = 'started' | 'completed' | 'failed' | 'dropped' | 'expired' | 'released'

/** The JSON text of an event. `more`: further members, each with a comma before it. */
export function eventText(
  now: number,
  { id, generation }: LiveDelivery,
  attempt: number,
  event: EventName,
  more = '',
): string {
  return `{"job_id":${JSON.stringify(id)},"generation":${generation},"attempt":${attempt},"event":"${event}","at":"${timestamp(now)}"${more}}`
}

/**
 * The member `started_at` of `completed`: `started` is sent up to 50 ms late or not at all (see `Reporter`).
 */
export function startMember(startedAt: number): string {
  return `,"started_at":"${timestamp(startedAt)}"`
}

/** The member `result`; `''` if there is no result; an error if the result cannot be reported. */
export function resultMember(result: unknown): string | JobError {
  try {
    const text = JSON.stringify(result)
    if (text === undefined) return ''
    if (Buffer.byteLength(text) > MAX_RESULT_BYTES)
      return unusable(`it is larger than ${MAX_RESULT_BYTES} bytes`)
    const problem = refusalOf('result', text)
    return problem === null ? `,"result":${text}` : unusable(problem)
  } catch (error) {
    return unusable(messageOf(error))
  }
}

/** The member `error`, without `details` if these are too large or the gateway would refuse them. */
export function errorMember(failure: Failure): string {
  const text = JSON.stringify(failure)
  const isKeepable = Buffer.byteLength(text) <= MAX_ERROR_BYTES && refusalOf('error', text) === null
  return isKeepable ? `,"error":${text}` : leanErrorMember(failure)
}

/** The member `error`, always without its `details`. */
export function leanErrorMember(failure: Failure): string {
  return `,"error":${JSON.stringify(lean(failure))}`
}

function lean({ code, type, message, retryable }: Failure): Failure {
  return { code, type, message, retryable, details: { truncated: true } }
}

/** Whether the gateway accepts the value. Otherwise it would leave out the event, and the job with it. */
export function isTellable(value: unknown): boolean {
  return value !== undefined && refusalOf('value', JSON.stringify(value)) === null && isSafe(value)
}

/** False for integers that a double cannot hold exactly: amqplib may have read another number. */
function isSafe(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return typeof value !== 'object' || value === null || Object.values(value).every(isSafe)
}

/** Why the gateway would refuse the value as a member of an HTTP request; null: it would not. */
function refusalOf(member: 'result' | 'error' | 'value', text: string): string | null {
  try {
    refuseUnkeepable(Buffer.from(`{"${member}":${text}}`))
    return null
  } catch (error) {
    if (error instanceof OjsError) return error.message
    throw error
  }
}

/**
 * The error for an unusable result, as the HTTP worker reports it (`sdk/worker/http-lease.ts`). Not retryable:
 * another run would give the same result.
 */
export function unusable(problem: string): JobError {
  const message = `The result of the handler cannot be reported: ${problem}`
  return jobError('handler_error', message, { type: 'ResultError', retryable: false })
}
