/** The schemas of PUSH and PUSH batch. */
import { KEY_PATTERN, MAX_CONCURRENCY, MAX_CONCURRENCY_KEY } from '../../job/concurrency.ts'
import { BACKOFF_STRATEGIES } from '../../job/request.ts'
import { CONFLICT_NAMES } from '../../job/unique.ts'
import { MAX_DURATION_MS } from '../../job/values/duration.ts'
import { MAX_TYPE } from '../../job/values/limits.ts'
import { lease, storable } from './shared-members.ts'

const text = { type: ['string', 'null'] }
const integer = { type: ['integer', 'null'] }
const texts = { type: ['array', 'null'], items: { type: 'string', minLength: 1 } }
const map = { type: ['object', 'null'] }
const duration = { type: ['string', 'integer', 'null'] }
const positiveMs = { ...integer, minimum: 1, maximum: MAX_DURATION_MS }
const positiveSeconds = { ...integer, minimum: 1, maximum: MAX_DURATION_MS / 1000 }

const strategy = { enum: [...BACKOFF_STRATEGIES, null] }

// The ranges of the retry numbers are checked elsewhere, because they are 422, not 400 (docs/architecture.md
// §9).
export const retry = {
  title: 'RetryPolicy',
  type: ['object', 'null'],
  additionalProperties: false,
  properties: {
    max_attempts: integer,
    initial_interval: duration,
    initial_interval_ms: integer,
    initial_delay_ms: integer,
    max_interval: duration,
    max_interval_ms: integer,
    max_delay_ms: integer,
    backoff_coefficient: { type: ['number', 'null'] },
    backoff_strategy: strategy,
    backoff_type: strategy,
    strategy,
    jitter: { type: ['boolean', 'null'] },
    non_retryable_errors: texts,
    on_exhaustion: { enum: ['discard', 'dead_letter', null] },
  },
}

const unique = {
  title: 'UniquePolicy',
  type: ['object', 'null'],
  additionalProperties: false,
  properties: {
    key: texts,
    keys: texts,
    args_keys: texts,
    meta_keys: texts,
    period: duration,
    within: duration,
    period_ms: integer,
    on_conflict: {
      enum: [...CONFLICT_NAMES, null],
    },
    states: texts,
  },
}

const concurrencyKey = {
  type: ['string', 'null'],
  minLength: 1,
  maxLength: MAX_CONCURRENCY_KEY,
  pattern: KEY_PATTERN,
}
const concurrencyLimit = { minimum: 1, maximum: MAX_CONCURRENCY }

// Members that only other servers know are kept (OJS rate limits), and so is a `key` that limits nothing here.
const rateLimit = {
  ...map,
  properties: {
    max_per_second: { type: ['number', 'null'], exclusiveMinimum: 0 },
    concurrency: { ...integer, ...concurrencyLimit },
  },
  dependentSchemas: { concurrency: { properties: { key: concurrencyKey } } },
}

const concurrency = {
  title: 'ConcurrencyPolicy',
  type: ['object', 'null'],
  additionalProperties: false,
  required: ['limit'],
  properties: {
    key: concurrencyKey,
    limit: { type: 'integer', ...concurrencyLimit },
  },
}

const options = {
  queue: { ...text, maxLength: 128, pattern: '^[a-z0-9][a-z0-9\\-\\.]*$' },
  priority: {
    anyOf: [
      { type: ['integer', 'null'], minimum: -100, maximum: 100 },
      { enum: ['HIGH', 'NORMAL', 'LOW'] },
    ],
  },
  timeout_ms: { ...integer, minimum: 0, maximum: MAX_DURATION_MS },
  timeout: positiveSeconds,
  visibility_timeout_ms: positiveMs,
  visibility_timeout: lease,
  delay_until: text,
  scheduled_at: text,
  expires_at: text,
  retry,
  retry_policy: retry,
  max_attempts: integer,
  unique,
  tags: { ...texts, maxItems: 1000 },
  pending: { type: ['boolean', 'null'] },
  rate_limit: rateLimit,
  concurrency,
  result_ttl: { ...integer, minimum: -1, maximum: MAX_DURATION_MS / 1_000 },
  meta: map,
  metadata: map,
}

/** Seed 003's pattern, extended by hyphens inside a segment (docs/architecture.md §9, ojs-choices S1). */
export const jobType = {
  type: 'string',
  minLength: 1,
  maxLength: MAX_TYPE,
  pattern: '^[a-zA-Z][a-zA-Z0-9_-]*(\\.[a-zA-Z][a-zA-Z0-9_-]*)*$',
} as const

export const PUSH_SCHEMA = {
  title: 'PushRequest',
  type: 'object',
  required: ['type', 'args'],
  properties: {
    type: jobType,
    args: { type: 'array' },
    id: {
      type: ['string', 'null'],
      pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
    },
    specversion: { enum: ['1.0', '1.0.0', '1', '1.0.0-rc.1', null] },
    schema: { ...text, maxLength: 2048, pattern: storable },
    ...options,
    options: {
      title: 'JobOptions',
      type: ['object', 'null'],
      properties: options,
    },
  },
} as const

/** The jobs are checked one by one, so that the answer can name the invalid one. */
export const BATCH_SCHEMA = {
  title: 'BatchRequest',
  type: 'object',
  required: ['jobs'],
  properties: {
    jobs: { type: 'array', minItems: 1, maxItems: 1000 },
    // What else OJS bulk operations know is another request.
    atomicity: { enum: ['atomic', null] },
  },
} as const
