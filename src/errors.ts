/** The closed table of error codes, and the error that both doors render. */

/**
 * The closed table of error codes (seed 001 §16.3); no other code exists. The HTTP renderer and the AMQP
 * control plane both render from it.
 */
const ERROR_CODES = {
  invalid_request: { status: 400, retryable: false, doc: 'The request is malformed.' },
  invalid_payload: { status: 400, retryable: false, doc: 'The body is not usable JSON.' },
  schema_validation: { status: 400, retryable: false, doc: 'args do not match the schema.' },
  not_found: { status: 404, retryable: false, doc: 'The resource does not exist.' },
  conflict: {
    status: 409,
    retryable: false,
    doc: 'Only with OJS_DIALECT=conformance (dialect.ts).',
  },
  duplicate: { status: 409, retryable: false, doc: 'A job with this identity exists already.' },
  queue_paused: { status: 422, retryable: true, doc: 'The queue is paused.' },
  unsupported: { status: 422, retryable: false, doc: 'The server does not support this.' },
  // Seed 001 §5.2 defines the status of the next two, and leaves their codes to us (§16.3: `x_`).
  x_unauthenticated: { status: 401, retryable: false, doc: 'The API key is missing or not known.' },
  x_forbidden: {
    status: 403,
    retryable: false,
    doc: 'The API key, Origin or Host may not do this.',
  },
  rate_limited: {
    status: 429,
    retryable: true,
    doc: 'A request limit is reached, or a queue is full.',
  },
  backend_error: { status: 500, retryable: true, doc: 'RabbitMQ or the ledger failed.' },
} as const satisfies Record<string, { status: number; retryable: boolean; doc: string }>

export type ErrorCode = keyof typeof ERROR_CODES

export const ERROR_CODE_NAMES: readonly string[] = Object.keys(ERROR_CODES)

export interface OjsErrorOptions {
  /** Overrides the code's usual HTTP status, e.g. 409 for a state conflict (seed 001 §9.4). */
  status?: number
  details?: Record<string, unknown>
  /** `error.type`, an addition that the public suite reads (ojs-choices S11). */
  type?: string | undefined
  /** Sent as `Retry-After`. Default: 1 for every 429 and 503 (seed 001 §18.2), else none. */
  retryAfterSeconds?: number | undefined
  cause?: unknown
}

/** In characters: room for the URI of a schema and a sentence about it. */
const MAX_MESSAGE = 4_096
/** In characters. A field can be a member's name, which the client chooses, at any length. */
const MAX_FIELD = 300

/**
 * Truncates a message and replaces its control characters. Error messages quote the names of members, which
 * the publisher of a job chooses, of any length and with any character; the messages end up in logs and,
 * where a native worker reads them, in terminals.
 */
function shown(message: string): string {
  return message.slice(0, MAX_MESSAGE).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '\ufffd')
}

/** An error that a client may see. Thrown anywhere, rendered in exactly one place per door. */
export class OjsError extends Error {
  override readonly name = 'OjsError'
  readonly code: ErrorCode
  readonly status: number
  readonly retryable: boolean
  readonly details: Record<string, unknown> | undefined
  readonly type: string | undefined
  readonly retryAfterSeconds: number | undefined

  constructor(code: ErrorCode, message: string, options: OjsErrorOptions = {}) {
    super(shown(message), { cause: options.cause })
    this.code = code
    this.status = options.status ?? ERROR_CODES[code].status
    this.retryable = ERROR_CODES[code].retryable
    this.details = options.details
    this.type = options.type
    const isTemporary = this.status === 429 || this.status === 503
    this.retryAfterSeconds = options.retryAfterSeconds ?? (isTemporary ? 1 : undefined)
  }

  /** The same error with more details, and with another message where one is given. */
  withDetails(details: Record<string, unknown>, message: string = this.message): OjsError {
    const { status, type, retryAfterSeconds } = this
    return new OjsError(this.code, message, {
      status,
      details: { ...this.details, ...details },
      type,
      retryAfterSeconds,
      cause: this,
    })
  }
}

/** 400 for one field of a request (seed 001 §9.1, "Validation Error"). */
export function invalidField(
  field: string,
  message: string,
  details: Record<string, unknown> = {},
): OjsError {
  const shownField = field.slice(0, MAX_FIELD)
  return new OjsError('invalid_request', message, { details: { field: shownField, ...details } })
}

/** Truncates a client's value to the length that errors quote. */
export function echoed(text: string): string {
  return text.slice(0, 100)
}

/** The resources that a 404 can be about: `resource_type`, and the word for it in messages. */
const RESOURCES = {
  job: 'Job',
  queue: 'Queue',
  checkpoint: 'Checkpoint',
  dead_letter_job: 'Dead letter job',
  rate_limit: 'Rate limit',
  cron_job: 'Cron job',
  workflow: 'Workflow',
  schema: 'Schema',
  worker: 'Worker',
  operation: 'Operation',
} as const

/** 404 (seed 001 §9.3). */
export function notFound(type: keyof typeof RESOURCES, id: string): OjsError {
  return new OjsError('not_found', `${RESOURCES[type]} '${id}' not found.`, {
    details: { resource_type: type, resource_id: id },
  })
}

/** 409: the job is not in the state that the operation needs (seed 001 §9.4, §10.2). */
export function stateConflict(
  message: string,
  details: { job_id: string; current_state: string; expected_state?: string; reason?: string },
  code: ErrorCode = 'invalid_request',
): OjsError {
  return new OjsError(code, message, {
    status: 409,
    details: { reason: 'invalid_state_transition', ...details },
  })
}

/** 503: RabbitMQ or the ledger cannot take the write now; nothing was stored. */
export function unavailable(message: string, reason: string, cause?: unknown): OjsError {
  return new OjsError('backend_error', message, { status: 503, details: { reason }, cause })
}

/**
 * Whether the same write would fail again: the ledger refuses its content, or the error is a bug of ours.
 * False for what the ledger or RabbitMQ cannot take right now (503).
 */
export function isHopeless(error: unknown): boolean {
  if (error instanceof OjsError) return error.code === 'backend_error' && error.status === 500
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((bug) => error instanceof bug)
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

const DOCS_URL = 'https://openjobspec.org/schemas/v1/error.schema.json'

/**
 * The error body of seed 001 §16.1. `type`, `hint` and `docs_url` are additions that the public
 * suite reads (ojs-choices S10, S11).
 */
export function errorBody(error: OjsError, requestId: string): string {
  return JSON.stringify({
    error: {
      ...errorObject(error),
      ...(error.status === 404 && { hint: hintFor(error), docs_url: DOCS_URL }),
      request_id: requestId,
    },
  })
}

/** The error without what belongs to the answer as a whole. */
export function errorObject(error: OjsError): Record<string, unknown> {
  const { code, type, message, retryable, details } = error
  return { code, type, message, retryable, details }
}

const HINTS: Readonly<Record<string, string>> = {
  job: 'Check the id, and that the job was enqueued through this gateway.',
  queue: 'Check the name. A queue is created by its first job or by OJS_QUEUES (see OJS_DECLARE).',
  route: 'Check the method and the path: it is case-sensitive and has no slash at its end.',
}

function hintFor(error: OjsError): string {
  const type = error.details?.['resource_type']
  return (typeof type === 'string' && HINTS[type]) || 'Check the identifier.'
}
