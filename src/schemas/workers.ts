import { MAX_DURATION_MS } from '../job/duration.ts'

/**
 * SQLite's drivers end a text at its first NUL, and write half a surrogate pair as U+FFFD: two ids that
 * differ there would be one, and what is read back would be neither.
 */
export const storable = '^[^\\u0000\\p{Cs}]*$'

export const id = { type: 'string', minLength: 1, maxLength: 255, pattern: storable } as const
const optionalId = { ...id, type: ['string', 'null'] } as const
export const label = { type: ['string', 'null'], maxLength: 255 } as const
export const count = { type: ['integer', 'null'], minimum: 0 } as const
const attempt = { type: ['integer', 'null'], minimum: 1 } as const
export const leaseMs = { type: ['integer', 'null'], minimum: 1, maximum: MAX_DURATION_MS } as const
export const queueName = { type: 'string', minLength: 1, maxLength: 128 } as const

export const FETCH_SCHEMA = {
  type: 'object',
  required: ['queues'],
  properties: {
    queues: { type: 'array', minItems: 1, maxItems: 100, items: queueName },
    count: { type: ['integer', 'null'] },
    worker_id: optionalId,
    visibility_timeout_ms: leaseMs,
    wait_ms: { type: ['integer', 'null'] },
  },
} as const

export const ACK_SCHEMA = {
  type: 'object',
  required: ['job_id'],
  properties: { job_id: id, worker_id: optionalId, attempt },
} as const

/** Present and a text: an explicit null is as good as absent. */
function names(member: 'code' | 'type') {
  return { required: [member], properties: { [member]: { type: 'string' } } }
}

// The texts have no upper bound here, and the message may be empty, as that of `new Error()` is: a
// failure report that is refused for its message leaves the job waiting for its lease.
// `job/failure.ts` cuts what is kept; the body has its own limit.
export const nackError = {
  type: 'object',
  required: ['message'],
  properties: {
    message: { type: 'string' },
    code: { type: ['string', 'null'], minLength: 1 },
    type: { type: ['string', 'null'], minLength: 1 },
    retryable: { type: ['boolean', 'null'] },
    details: { type: ['object', 'null'] },
  },
  anyOf: [names('code'), names('type')],
}

export const NACK_SCHEMA = {
  type: 'object',
  required: ['job_id', 'error'],
  properties: {
    job_id: id,
    error: nackError,
    worker_id: optionalId,
    attempt,
    requeue: { type: ['boolean', 'null'] },
  },
} as const

export const MAX_IDS = 1000

export const HEARTBEAT_SCHEMA = {
  type: 'object',
  required: ['worker_id'],
  properties: {
    worker_id: id,
    // Whatever they are: no job loses its lease for the id of another (ojs-digest §9).
    active_jobs: {
      type: ['array', 'integer', 'null'],
      minimum: 0,
      maxItems: MAX_IDS,
      items: { type: 'string' },
    },
    active_job_ids: { type: ['array', 'null'], maxItems: MAX_IDS, items: { type: 'string' } },
    job_id: optionalId,
    attempt,
    visibility_timeout_ms: leaseMs,
    state: label,
    // As many as FETCH takes.
    queues: { type: ['array', 'null'], maxItems: 100, items: queueName },
    hostname: label,
    pid: count,
    concurrency: count,
    labels: { type: ['array', 'null'], maxItems: 64, items: { type: 'string', maxLength: 255 } },
    version: label,
  },
} as const
