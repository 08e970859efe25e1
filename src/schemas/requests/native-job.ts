/** Parses a natively published message into a job. */
import { invalidField } from '../../errors.ts'
import { type EnvelopeContext, toNewJob } from '../../job/envelope.ts'
import type { Carry, NewJob } from '../../job/job.ts'
import type { PushRequest } from '../../job/request.ts'
import { withBodyTrace } from '../../job/trace/carry.ts'
import { hasRfc3339Year, toldInstant } from '../../job/values/instant.ts'
import { MAX_INT32 } from '../../job/values/limits.ts'
import { JSON_LIMITS, type JsonLimits, parseJsonObject } from '../json/json-text.ts'
import { parseJobMessage } from './validator.ts'

/** A natively published message, from a delivery or a dead letter. */
export interface NativeMessage {
  /** `message_id`. If that is missing, the id in the body, unless the body is too large to be searched. */
  readonly id: string
  readonly queue: string
  /** `x-ojs-max-attempts`; null when missing or unusable: then the body's value counts. */
  readonly maxAttempts: number | null
  readonly message: {
    content: Buffer
    headers?: Readonly<Record<string, unknown>>
    properties: { timestamp?: number; priority?: number }
  }
  /** The headers and properties that travel beside the body. */
  carry(): Carry
}

const ENQUEUED_AT = 'x-ojs-enqueued-at'
const CREATED_AT = 'x-ojs-created-at'

export type NativeContext = Omit<EnvelopeContext, 'carry' | 'native'> & {
  /** Default: those of a single document. */
  limits?: JsonLimits
}

/**
 * Converts a natively published message to a job, validated as strictly as an HTTP body (docs/architecture.md
 * §2, "unknown id"). Throws `OjsError` for anything that is not an OJS job of this queue. `schedule`: as in
 * `EnvelopeContext`.
 */
export function nativeJob(
  message: NativeMessage,
  context: NativeContext,
  schedule?: { dueAt: number | null },
): NewJob {
  const body = parseJsonObject(message.message.content, context.limits ?? JSON_LIMITS)
  const request = parseJobMessage(withUsableAttempts(body))
  if (request.id == null) throw invalidField('id', "The 'id' field is required.")
  if (message.id === '') {
    throw invalidField(
      'id',
      'The body is too large to be searched for an id; the message needs a message_id.',
    )
  }
  if (request.id !== message.id) {
    throw invalidField('id', 'message_id and the id in the body differ.')
  }
  const queue = request.options?.queue ?? request.queue ?? message.queue
  if (queue !== message.queue) {
    throw invalidField(
      'queue',
      `The body names queue '${queue}', but the message is for '${message.queue}'.`,
    )
  }
  const enqueued = toldInstant(message.message.headers?.[ENQUEUED_AT])?.ms
  const created = createdAt(message, body, enqueued ?? context.now)
  const job = toNewJob(withPriority(request, message), {
    ...context,
    carry: withBodyTrace(message.carry(), request),
    native: {
      queue: message.queue,
      createdAt: created,
      maxAttempts: message.maxAttempts,
      ...(schedule && { schedule }),
    },
  })
  return { ...job, enqueuedAt: Math.max(created, enqueued ?? created) }
}

/** A `max_attempts` beside `retry` that is no count is ignored, as a job's document may have one. */
function withUsableAttempts(body: Record<string, unknown>): Record<string, unknown> {
  const { max_attempts: value } = body
  const isCount = typeof value === 'number' && Number.isInteger(value) && value >= 0
  return value == null || (isCount && value <= MAX_INT32) ? body : { ...body, max_attempts: null }
}

/** Seed 002 §6.1: the property holds the priority as 0–9; that of the body is more exact and wins. */
function withPriority(request: PushRequest, { message }: NativeMessage): PushRequest {
  const { priority } = message.properties
  const isNamed = (request.options?.priority ?? request.priority ?? null) !== null
  return isNamed || priority === undefined
    ? request
    : { ...request, priority: Math.min(priority, 9) }
}

/**
 * The body's own `created_at`, else `x-ojs-created-at` (seed 002 §6.2), else the message's timestamp (the
 * same, in seconds), else `latest`. A value that is not an instant is ignored.
 */
function createdAt(
  { message }: NativeMessage,
  body: Record<string, unknown>,
  latest: number,
): number {
  const told = toldInstant(body['created_at']) ?? toldInstant(message.headers?.[CREATED_AT])
  if (told !== null) return told.ms
  // Some publishers write milli- or microseconds, which would mean a year that no client can parse. Rounded
  // down, because a report may hold a timestamp with a fraction, unlike the AMQP property.
  const sentAt = Math.floor((message.properties.timestamp ?? Number.NaN) * 1000)
  return hasRfc3339Year(sentAt) ? sentAt : latest
}
