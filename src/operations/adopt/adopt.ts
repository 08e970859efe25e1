/** Adoption: a natively published message becomes a job, validated as strictly as an HTTP body. */
import { OjsError } from '../../errors.ts'
import type { NewJob } from '../../job/job.ts'
import type { ReportedError } from '../../job/retry/failure.ts'
import { MAX_ALONE, noMemory } from '../../memory.ts'
import { hasRoomToRead } from '../../schemas/json/json-heap.ts'
import { JSON_LIMITS, valueLimits } from '../../schemas/json/json-text.ts'
import { type NativeMessage, nativeJob } from '../../schemas/requests/native-job.ts'
import type { Deps } from '../deps.ts'

/**
 * True for a message larger than any job that HTTP accepts, or than fits into this heap when parsed. RabbitMQ
 * accepts 128 MB, and a body of that size made of empty lists takes gigabytes when parsed: it would end the
 * process, and after the redelivery the next process too.
 */
export function isTooLarge({ settings }: Pick<Deps, 'settings'>, { message }: NativeBody): boolean {
  const { content } = message
  return content.length > maxBytes(settings) || !hasRoomToRead(content, MAX_ALONE)
}

type NativeBody = { message: Pick<NativeMessage['message'], 'content'> }

function maxBytes({ maxBodyBytes, maxBatchBytes }: Deps['settings']): number {
  return Math.max(maxBodyBytes, maxBatchBytes)
}

/**
 * Makes a job out of a natively published message; throws `OjsError` when it is not one. `schedule`: the
 * message may come before its time, which this header names.
 */
export function adoptedJob(
  deps: Deps,
  delivery: NativeMessage,
  schedule?: { dueAt: number | null },
): NewJob {
  if (isTooLarge(deps, delivery)) throw tooLarge(deps, delivery)
  const context = {
    newId: deps.newId,
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    timeoutMs: deps.settings.timeoutMs,
    resultMs: deps.settings.retention.completedMs,
    prefix: deps.settings.prefix,
    limits: valueLimits(JSON_LIMITS, maxBytes(deps.settings)),
  }
  return nativeJob(delivery, context, schedule)
}

function tooLarge({ settings }: Deps, { message }: NativeBody): OjsError {
  const max = maxBytes(settings)
  if (message.content.length <= max) {
    return noMemory('The message needs more memory than this gateway has.')
  }
  return new OjsError('invalid_request', `The message is larger than ${max} bytes.`, {
    status: 413,
    details: { field: 'body', actual_bytes: message.content.length, max_bytes: max },
  })
}

/**
 * Reads the `x-ojs-error-*` headers, in which a foreign worker describes the failure of the attempt before
 * (seed 002 §6.2); null: there are none.
 */
export function reportedError(headers: Readonly<Record<string, unknown>>): ReportedError | null {
  const { 'x-ojs-error-message': message, 'x-ojs-error-code': code } = headers
  if (typeof message !== 'string' && typeof code !== 'string') return null
  return {
    code: typeof code === 'string' ? code : 'handler_error',
    message: typeof message === 'string' ? message : '',
  }
}
