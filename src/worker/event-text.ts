/**
 * Events of a report as text. Each of them is one that the gateway takes: what it refuses is gone
 * with all that the event tells, and the delivery is acknowledged all the same.
 */

import type { LiveDelivery } from '../broker/delivery.ts'
import { messageOf, OjsError } from '../errors.ts'
import { timestamp } from '../job/document.ts'
import type { Failure } from '../job/error-history.ts'
import { MAX_RESULT_BYTES } from '../job/text-size.ts'
import { refuseUnkeepable } from '../schemas/json-text.ts'
import { jobError } from '../sdk/job-error.ts'
import type { JobError } from '../sdk/source.ts'

/**
 * Events go together up to this, and a job goes along with what is only said. Bodies of control messages
 * end at 1 MiB, and those of reports no earlier than 3 KiB above it: room for the largest result, alone.
 */
export const MAX_EVENT_BYTES = 1024 * 1024 - 4_096
/** Of an event without its result, its error and its job. */
export const BARE_EVENT_BYTES = 2_048

/** Beside the largest job that is shown with it. */
const MAX_ERROR_BYTES = 100_000

export type EventName = 'started' | 'completed' | 'failed' | 'dropped' | 'expired' | 'released'

/** `more`: members, each behind a comma. */
export function eventText(
  now: number,
  { id, generation }: LiveDelivery,
  attempt: number,
  event: EventName,
  more = '',
): string {
  return `{"job_id":${JSON.stringify(id)},"generation":${generation},"attempt":${attempt},"event":"${event}","at":"${timestamp(now)}"${more}}`
}

/** The start itself is told up to 50 ms later than it was, or not at all: see `Reporter`. */
export function startMember(startedAt: number): string {
  return `,"started_at":"${timestamp(startedAt)}"`
}

/** The member of the event; `''` where there is no result; an error where it cannot be told. */
export function resultMember(result: unknown): string | JobError {
  try {
    const text = JSON.stringify(result)
    if (text === undefined) return ''
    if (Buffer.byteLength(text) > MAX_RESULT_BYTES)
      return unusable(`larger than ${MAX_RESULT_BYTES} bytes`)
    const problem = problemOf('result', text)
    return problem === null ? `,"result":${text}` : unusable(problem)
  } catch (error) {
    return unusable(messageOf(error))
  }
}

/** The member of the event: without its details where these are too much. */
export function errorMember(failure: Failure): string {
  const text = JSON.stringify(failure)
  const isKeepable = Buffer.byteLength(text) <= MAX_ERROR_BYTES && problemOf('error', text) === null
  return isKeepable ? `,"error":${text}` : leanErrorMember(failure)
}

/** The same without details, whatever they are. */
export function leanErrorMember(failure: Failure): string {
  return `,"error":${JSON.stringify(lean(failure))}`
}

function lean({ code, type, message, retryable }: Failure): Failure {
  return { code, type, message, retryable, details: { truncated: true } }
}

/** An event with what a gateway refuses is left out of its report, and the job is lost with it. */
export function isTellable(value: unknown): boolean {
  return value !== undefined && problemOf('value', JSON.stringify(value)) === null && isSafe(value)
}

/** An integer of 64 bits that amqplib has read is perhaps not the one that was sent. */
function isSafe(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return typeof value !== 'object' || value === null || Object.values(value).every(isSafe)
}

/** What a gateway would refuse over HTTP, where it is a member of the request; null: nothing. */
function problemOf(member: 'result' | 'error' | 'value', text: string): string | null {
  try {
    refuseUnkeepable(Buffer.from(`{"${member}":${text}}`))
    return null
  } catch (error) {
    if (error instanceof OjsError) return error.message
    throw error
  }
}

/** As the HTTP worker says it (`sdk/http-lease.ts`). To run it again would end in the same result. */
export function unusable(problem: string): JobError {
  const message = `The result of the handler cannot be reported: ${problem}`
  return jobError('handler_error', message, { type: 'ResultError', retryable: false })
}
