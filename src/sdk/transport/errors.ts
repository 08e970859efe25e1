/** The error classes of the SDK: what a server answered, and that nobody answered. */
import { isRecord } from '../async/options.ts'
import { type ErrorFamily, familyOf, isRetryableByDefault } from './error-codes.ts'

export interface OJSErrorInit {
  code: string
  message: string
  /** Absent: the default of the code's family. Ignored for an unknown code, which is never retryable. */
  retryable?: boolean | undefined
  details?: Record<string, unknown> | undefined
  /** Status of the HTTP answer. */
  status?: number | undefined
  requestId?: string | undefined
  /** Seconds to wait before another try. */
  retryAfter?: number | undefined
  /** How many times the request was sent. */
  attempts?: number | undefined
  cause?: unknown
}

/** An error that an OJS server answered (seed 001 §16). Never a failure to reach the server. */
export class OJSError extends Error {
  override name = 'OJSError'
  /** A code of seed 001 §16.3, or one of the server's own. */
  readonly code: string
  /** Whether the same request may succeed later. Unknown codes: false (seed 001 §16.3). */
  readonly retryable: boolean
  readonly details: Record<string, unknown> | undefined
  /** HTTP status; `undefined` where the error did not come over HTTP. */
  readonly status: number | undefined
  /** Finds the request in the server's log. */
  readonly requestId: string | undefined
  /** Seconds to wait before another try, if the server said so. */
  readonly retryAfter: number | undefined
  /** How many times the request was sent, including the try that got this answer. */
  readonly attempts: number

  constructor(init: OJSErrorInit) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause })
    const family = familyOf(init.code)
    this.code = init.code
    this.retryable = family !== undefined && (init.retryable ?? isRetryableByDefault(family))
    this.details = init.details
    this.status = init.status
    this.requestId = init.requestId
    this.retryAfter = init.retryAfter
    this.attempts = init.attempts ?? 1
  }

  /** For loggers that serialise errors as JSON: `message` is not enumerable, so it would be missing. */
  toJSON(): object {
    return { ...this, message: this.message }
  }
}

/** The request, or one of the jobs in it, is invalid (400, 413, some 422). */
export class OJSValidationError extends OJSError {
  override name = 'OJSValidationError'
}

/** 401: credentials are missing or wrong. */
export class OJSAuthenticationError extends OJSError {
  override name = 'OJSAuthenticationError'
}

/** 403: these credentials do not allow the request. */
export class OJSPermissionError extends OJSError {
  override name = 'OJSPermissionError'
}

/** 404: no such job, queue, cron job, workflow, schema or dead letter. */
export class OJSNotFoundError extends OJSError {
  override name = 'OJSNotFoundError'
}

/** 409: the job or other resource is in a state that forbids the request; `currentState` is that state. */
export class OJSConflictError extends OJSError {
  override name = 'OJSConflictError'

  get currentState(): string | undefined {
    return text(this.details?.['current_state'])
  }
}

/** 409: the job or other resource exists already. For a job, `existingJobId` is its id. */
export class OJSDuplicateError extends OJSConflictError {
  override name = 'OJSDuplicateError'

  get existingJobId(): string | undefined {
    return text(this.details?.['existing_job_id'])
  }
}

/** 422: the queue is paused and takes no jobs now. */
export class OJSQueuePausedError extends OJSError {
  override name = 'OJSQueuePausedError'
}

/** 422: the server does not offer this. */
export class OJSUnsupportedError extends OJSError {
  override name = 'OJSUnsupportedError'
}

/** 429: too many requests, or the queue is full. */
export class OJSRateLimitError extends OJSError {
  override name = 'OJSRateLimitError'
}

/** 500 or 503: the server, or the backend behind it, failed. */
export class OJSBackendError extends OJSError {
  override name = 'OJSBackendError'
}

const CLASSES: Readonly<Record<ErrorFamily, new (init: OJSErrorInit) => OJSError>> = {
  validation: OJSValidationError,
  authentication: OJSAuthenticationError,
  permission: OJSPermissionError,
  not_found: OJSNotFoundError,
  conflict: OJSConflictError,
  duplicate: OJSDuplicateError,
  queue_paused: OJSQueuePausedError,
  unsupported: OJSUnsupportedError,
  rate_limited: OJSRateLimitError,
  backend: OJSBackendError,
  job: OJSError,
}

/** The family of an unknown code, by the HTTP status. */
const FAMILY_OF_STATUS: Readonly<Record<number, ErrorFamily>> = {
  400: 'validation',
  401: 'authentication',
  403: 'permission',
  404: 'not_found',
  409: 'conflict',
  429: 'rate_limited',
  500: 'backend',
  503: 'backend',
}

interface Answer {
  status?: number
  body: unknown
  /** Lower-case names. */
  headers?: Readonly<Record<string, string>> | undefined
  attempts?: number
}

/** The error in an answer, as an instance of its class; `undefined`: the body is not an OJS error. */
export function errorOfAnswer({ status, body, headers, attempts }: Answer): OJSError | undefined {
  const error = isRecord(body) ? body['error'] : undefined
  if (!isRecord(error)) return undefined
  const { code, message, retryable, details, request_id: ownId } = error
  if (typeof code !== 'string' || code === '') return undefined
  const known = isRecord(details) ? details : undefined
  return new (classOf(code, status))({
    code,
    message: text(message) ?? code,
    retryable: typeof retryable === 'boolean' ? retryable : undefined,
    details: known,
    status,
    requestId: text(ownId) ?? headers?.['x-request-id'],
    retryAfter: retryAfterOf(headers?.['retry-after']) ?? seconds(known),
    attempts,
  })
}

function classOf(code: string, status = 0): new (init: OJSErrorInit) => OJSError {
  const family = familyOf(code) ?? FAMILY_OF_STATUS[status]
  if (family === undefined) return OJSError
  // Seed 001 §9.4, §10.2: a conflict of states is an `invalid_request` with the status 409.
  return CLASSES[family === 'validation' && status === 409 ? 'conflict' : family]
}

/** `Retry-After` in seconds: a number, or a date (RFC 9110 §10.2.3). */
export function retryAfterOf(header: string | undefined): number | undefined {
  if (header === undefined) return undefined
  if (/^\s*\d+(\.\d+)?\s*$/.test(header)) return Number(header)
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000)
}

function seconds(details: Record<string, unknown> | undefined): number | undefined {
  const value = details?.['retry_after_seconds']
  return typeof value === 'number' && value >= 0 ? value : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/**
 * `network`: no connection, or it broke. `timeout`: no answer in time. `aborted`: by the caller's signal.
 * `protocol`: an answer that is not OJS, e.g. from a proxy.
 */
export type TransportFailure = 'network' | 'timeout' | 'aborted' | 'protocol'

export interface OJSTransportErrorInit {
  kind: TransportFailure
  /** HTTP status of the answer that is not OJS. */
  status?: number | undefined
  requestId?: string | undefined
  retryAfter?: number | undefined
  attempts?: number | undefined
  cause?: unknown
}

/**
 * The request got no OJS answer. Deliberately not an `OJSError`: whether the server carried out the request
 * is unknown, unless `kind` is `protocol` and `status` tells.
 */
export class OJSTransportError extends Error {
  override readonly name = 'OJSTransportError'
  readonly kind: TransportFailure
  readonly status: number | undefined
  readonly requestId: string | undefined
  /** Seconds to wait before another try. */
  readonly retryAfter: number | undefined
  readonly attempts: number

  constructor(message: string, init: OJSTransportErrorInit) {
    super(message, init.cause === undefined ? undefined : { cause: init.cause })
    this.kind = init.kind
    this.status = init.status
    this.requestId = init.requestId
    this.retryAfter = init.retryAfter
    this.attempts = init.attempts ?? 1
  }

  /** For loggers that serialise errors as JSON, as in `OJSError`. */
  toJSON(): object {
    return { ...this, message: this.message }
  }
}
