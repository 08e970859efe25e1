/** A message as a job: read, checked as the gateway would, with its policy. */
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { OJS_HEADERS } from '../broker/messages/headers.ts'
import type { MessageSource } from '../broker/messages/job-message.ts'
import { invalidField } from '../errors.ts'
import { concurrencyIn } from '../job/concurrency.ts'
import { jobDocument } from '../job/document.ts'
import { type Carry, freshRow } from '../job/job.ts'
import { isOptionMember } from '../job/members.ts'
import type { Failure } from '../job/retry/error-history.ts'
import { isJsonObject } from '../job/values/json-value.ts'
import { MAX_ALONE, noMemory } from '../memory.ts'
import { hasRoomToRead } from '../schemas/json/json-heap.ts'
import { JSON_LIMITS, parseJsonObject } from '../schemas/json/json-text.ts'
import { type NativeContext, nativeJob } from '../schemas/requests/native-job.ts'
import type { Job } from '../sdk/job.ts'

/** What a job message tells about its job. */
export interface MessageJob {
  /** The job as FETCH answers it, except for `attempt`. */
  job: Job
  maxAttempts: number
  /** Wall time, ms; null: never. */
  expiresAt: number | null
  /**
   * By all signs a gateway published the job message, so it knows the job. Else no gateway does until it is
   * shown.
   */
  isKnown: boolean
  /** JSON text that contains the retry policy, in the gateway's form. */
  envelope(): string
  /** The data that travels beside the body, in headers and properties. */
  carry(): Carry | null
}

/**
 * The job message of a workflow step contains `parent_results`. Each result may be nested as deeply as the
 * request or report that brought it, inside as many lists as workflows may be nested in each other.
 */
const BODY_LIMITS = { maxDepth: JSON_LIMITS.maxDepth + 4 }

/** The beginning of every body that the gateway publishes. */
const GATEWAY_BODY = '{"specversion":"1.0","id":"'

/**
 * Reads a job message. Throws `OjsError` if the gateway would not adopt it, or if the heap has no room for
 * it.
 */
export function messageJob(delivery: LiveDelivery, context: NativeContext): MessageJob {
  const { content } = delivery.message
  // Reading the message would kill this worker, and then the next one that RabbitMQ gives it to.
  if (!hasRoomToRead(content, MAX_ALONE)) {
    throw noMemory('The message needs more memory than this worker has.')
  }
  const body = parseJsonObject(content, BODY_LIMITS)
  const headers = delivery.raw.properties.headers ?? {}
  const isOfProducer = headers[OJS_HEADERS.native] !== undefined
  return isGatewayForm(body) && (isOfProducer || isOfGateway(headers, content))
    ? fromGatewayForm(delivery, body, content, !isOfProducer)
    : adopted(delivery, nativeJob(delivery, context))
}

/**
 * Whether the body is in the gateway's form: the gateway writes both numbers into every body, and everything
 * else in the form that handlers and the retry policy read. Bodies of other publishers take the longer way of
 * an adoption.
 */
function isGatewayForm(body: Record<string, unknown>): boolean {
  return (
    typeof body['timeout_ms'] === 'number' &&
    typeof body['max_attempts'] === 'number' &&
    hasNoKnownOptions(body['options']) &&
    body['retry_policy'] === undefined
  )
}

/** A gateway moves the options that it knows up into the job, and leaves the others in `options`. */
function hasNoKnownOptions(options: unknown): boolean {
  return (
    options === undefined || (isJsonObject(options) && !Object.keys(options).some(isOptionMember))
  )
}

/**
 * Whether a gateway published the job message. The form alone is no proof: others may write both numbers,
 * too.
 */
function isOfGateway(headers: Readonly<Record<string, unknown>>, content: Buffer): boolean {
  return (
    typeof headers[OJS_HEADERS.enqueuedAt] === 'string' &&
    content.toString('latin1', 0, GATEWAY_BODY.length) === GATEWAY_BODY
  )
}

function fromGatewayForm(
  delivery: LiveDelivery,
  body: Record<string, unknown>,
  content: Buffer,
  isKnown: boolean,
): MessageJob {
  const { expires_at: expiresAt, x_ojs_generation: _, ...rest } = body
  const { id, type, args } = rest
  if (id !== delivery.id) throw invalidField('id', 'message_id and the id in the body differ.')
  if (typeof type !== 'string') throw invalidField('type', "The 'type' field must be a string.")
  if (!Array.isArray(args)) throw invalidField('args', "The 'args' field must be a JSON array.")
  const maxAttempts = delivery.maxAttempts ?? Number(body['max_attempts'])
  // Assignments to the copy instead of another spread, which takes 8 µs: this runs for every job.
  const job = rest as unknown as Job
  job.queue = delivery.queue
  job.state = 'active'
  job.attempt = delivery.attempt
  job.max_attempts = maxAttempts
  if (typeof expiresAt === 'string') job.expires_at = expiresAt
  tellWhileQueued(job, delivery)
  const expires = typeof expiresAt === 'string' ? Date.parse(expiresAt) : Number.NaN
  return {
    job,
    maxAttempts,
    isKnown,
    expiresAt: Number.isNaN(expires) ? null : expires,
    envelope: () => content.toString(),
    carry: () => delivery.carry(),
  }
}

function adopted(delivery: LiveDelivery, job: ReturnType<typeof nativeJob>): MessageJob {
  const row = freshRow(job, {
    generation: 0,
    outbox: null,
    enqueuedAt: job.enqueuedAt ?? job.createdAt,
  })
  const document: Job = JSON.parse(jobDocument({ ...row, state: 'active' }))
  document.attempt = delivery.attempt
  tellWhileQueued(document, delivery)
  return {
    job: document,
    maxAttempts: job.maxAttempts,
    isKnown: false,
    expiresAt: job.expiresAt,
    envelope: () => job.envelope,
    carry: () => job.carry,
  }
}

/** True for a job that must not run before a gateway says that it has a place. */
export function hasConcurrencyKey({ job }: MessageJob): boolean {
  return concurrencyIn(job) !== null
}

/** Adds what the headers tell about the job's way to this queue (seed 002 §6.2). */
function tellWhileQueued(job: Job, { raw }: LiveDelivery): void {
  const headers = raw.properties.headers ?? {}
  const enqueuedAt: unknown = headers[OJS_HEADERS.enqueuedAt]
  const code: unknown = headers[OJS_HEADERS.errorCode]
  const message: unknown = headers[OJS_HEADERS.errorMessage]
  if (typeof enqueuedAt === 'string') job.enqueued_at = enqueuedAt
  if (typeof code === 'string') job['error'] = { code, message }
}

/**
 * The data for the job message of the attempt after `attempt`: all that this message had, and the failure.
 */
export function retrySource(
  delivery: LiveDelivery,
  jobMessage: MessageJob,
  failed: { attempt: number; failure: Failure; now: number },
): MessageSource {
  const { job } = jobMessage
  const { timestamp } = delivery.message.properties
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    state: 'retryable',
    attempt: failed.attempt,
    maxAttempts: jobMessage.maxAttempts,
    priority: delivery.priority,
    createdAt: instantOr(job.created_at, timestamp === undefined ? failed.now : timestamp * 1000),
    enqueuedAt: instantOr(job.enqueued_at, failed.now),
    carry: jobMessage.carry(),
    error: JSON.stringify(failed.failure),
  }
}

function instantOr(text: string | undefined, fallback: number): number {
  const ms = text === undefined ? Number.NaN : Date.parse(text)
  return Number.isNaN(ms) ? fallback : ms
}
