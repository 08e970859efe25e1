/** The schemas of FETCH, ACK, NACK and heartbeats. */
import {
  count,
  id,
  label,
  lease,
  leaseMs,
  MAX_IDS,
  nackError,
  queueName,
} from './shared-members.ts'

const optionalId = { ...id, type: ['string', 'null'] } as const
const attempt = { type: ['integer', 'null'], minimum: 1 } as const
const generation = { type: ['integer', 'null'], minimum: 0 } as const

export const FETCH_SCHEMA = {
  title: 'FetchRequest',
  type: 'object',
  required: ['queues'],
  properties: {
    queues: { type: 'array', minItems: 1, maxItems: 100, items: queueName },
    count: { type: ['integer', 'null'] },
    batch_size: { type: ['integer', 'null'] },
    worker_id: optionalId,
    visibility_timeout_ms: leaseMs,
    visibility_timeout: lease,
    wait_ms: { type: ['integer', 'null'] },
  },
} as const

export const ACK_SCHEMA = {
  title: 'AckRequest',
  type: 'object',
  required: ['job_id'],
  properties: { job_id: id, result: {}, worker_id: optionalId, attempt, generation },
} as const

export const NACK_SCHEMA = {
  title: 'NackRequest',
  type: 'object',
  required: ['job_id', 'error'],
  properties: {
    job_id: id,
    error: nackError,
    worker_id: optionalId,
    attempt,
    generation,
    requeue: { type: ['boolean', 'null'] },
    retryable: { type: ['boolean', 'null'] },
  },
} as const

/** The rest of it is checked as the ACK or NACK that it is. */
export const SETTLE_ITEM_SCHEMA = {
  type: 'object',
  required: ['action'],
  properties: {
    action: { enum: ['ack', 'nack'] },
    traceparent: { type: ['string', 'null'] },
    tracestate: { type: ['string', 'null'] },
  },
} as const

/** The items are checked one by one, so that its own answer refuses an invalid one. */
export const SETTLE_SCHEMA = {
  title: 'SettleRequest',
  type: 'object',
  required: ['items'],
  properties: {
    worker_id: optionalId,
    items: { type: 'array', minItems: 1, maxItems: MAX_IDS },
  },
} as const

export const HEARTBEAT_SCHEMA = {
  title: 'HeartbeatRequest',
  type: 'object',
  required: ['worker_id'],
  properties: {
    worker_id: id,
    // Any string is accepted: an invalid id must not cost other jobs their leases (OJS workers).
    active_jobs: {
      type: ['array', 'integer', 'null'],
      minimum: 0,
      maxItems: MAX_IDS,
      items: { type: 'string' },
    },
    active_job_ids: { type: ['array', 'null'], maxItems: MAX_IDS, items: { type: 'string' } },
    job_id: optionalId,
    attempt,
    generation,
    visibility_timeout_ms: leaseMs,
    visibility_timeout: lease,
    state: label,
    // The same limit as in FETCH.
    queues: { type: ['array', 'null'], maxItems: 100, items: queueName },
    hostname: label,
    pid: count,
    concurrency: count,
    labels: { type: ['array', 'null'], maxItems: 64, items: { type: 'string', maxLength: 255 } },
    version: label,
  },
} as const
