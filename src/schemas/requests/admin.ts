/** The bodies of the admin API; unlike elsewhere, a member that nobody knows is refused. */
import { JOB_STATES, type JobState } from '../../job/job.ts'
import type { RetryRequest } from '../../job/request.ts'
import { retry } from './push.ts'
import { queueName, storable } from './shared-members.ts'
import { parser } from './validator.ts'

/** A misspelt member of these may mean that far more is changed than was wanted. */
const strict = { type: 'object', additionalProperties: false } as const

export interface DirectiveRequest {
  directive: 'quiet' | 'resume' | 'terminate'
}

export const DIRECTIVE_SCHEMA = {
  ...strict,
  required: ['directive'],
  properties: { directive: { enum: ['quiet', 'resume', 'terminate'] } },
} as const

export interface PriorityRequest {
  priority: number
}

export const PRIORITY_SCHEMA = {
  ...strict,
  title: 'PriorityRequest',
  required: ['priority'],
  properties: { priority: { type: 'integer', minimum: -100, maximum: 100 } },
} as const

export interface MaintenanceRequest {
  enabled: boolean
  reason?: string | null
  /** Seconds, or a duration; for both names. */
  estimated_duration?: number | string | null
  duration?: number | string | null
}

const duration = { type: ['integer', 'string', 'null'], minimum: 0 } as const

export const MAINTENANCE_SCHEMA = {
  ...strict,
  required: ['enabled'],
  properties: {
    enabled: { type: 'boolean' },
    reason: { type: ['string', 'null'], maxLength: 1_000, pattern: storable },
    estimated_duration: duration,
    duration,
  },
} as const

export const parseMaintenance = parser<MaintenanceRequest>(MAINTENANCE_SCHEMA)
export const parsePriority = parser<PriorityRequest>(PRIORITY_SCHEMA)
export const parseDirective = parser<DirectiveRequest>(DIRECTIVE_SCHEMA)

export interface PurgeRequest {
  states: JobState[]
  older_than?: string | number | null
  confirm?: boolean | null
  dry_run?: boolean | null
}

export const PURGE_SCHEMA = {
  ...strict,
  required: ['states'],
  properties: {
    // A job that runs is never purged.
    states: {
      type: 'array',
      minItems: 1,
      items: { enum: JOB_STATES.filter((one) => one !== 'active') },
    },
    older_than: { type: ['string', 'integer', 'null'] },
    confirm: { type: ['boolean', 'null'] },
    dry_run: { type: ['boolean', 'null'] },
  },
}

export const parsePurge = parser<PurgeRequest>(PURGE_SCHEMA)

export interface QueueCreation {
  name: string
}

export const CREATE_QUEUE_SCHEMA = {
  ...strict,
  required: ['name'],
  properties: { name: queueName },
} as const

export interface QueueDeletion {
  strategy?: 'reject' | 'discard' | 'move' | null
  target_queue?: string | null
}

export const DELETE_QUEUE_SCHEMA = {
  ...strict,
  properties: {
    strategy: { enum: ['reject', 'discard', 'move', null] },
    target_queue: { type: ['string', 'null'] },
  },
} as const

export const parseQueueDeletion = parser<QueueDeletion>(DELETE_QUEUE_SCHEMA)

/** Also with the members that are known and cannot be set: they are refused one by one. */
export interface QueueConfigRequest extends Readonly<Record<string, unknown>> {
  default_retry?: RetryRequest | null
  max_size?: number | null
  max_size_bytes?: number | null
  overflow_policy?: string | null
  backpressure?: {
    max_depth?: number | null
    max_size_bytes?: number | null
    strategy?: string | null
  } | null
}

const limit = { type: ['integer', 'null'], minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const
const limitOr0 = { ...limit, minimum: 0 } as const
const text = { type: ['string', 'null'] } as const

export const QUEUE_CONFIG_SCHEMA = {
  ...strict,
  title: 'QueueConfigRequest',
  minProperties: 1,
  properties: {
    default_retry: retry,
    max_size: limit,
    max_size_bytes: limit,
    overflow_policy: text,
    backpressure: {
      type: ['object', 'null'],
      additionalProperties: false,
      properties: { max_depth: limitOr0, max_size_bytes: limitOr0, strategy: text },
    },
    ...{ concurrency: {}, rate_limit: {}, retention: {}, visibility_timeout: {} },
    ...{ default_timeout: {}, dead_letter_max_size: {}, dead_letter_ttl: {} },
    ...{ dead_letter_queue: {}, allowed_job_types: {}, producers: {} },
  },
} as const

export const parseQueueConfig = parser<QueueConfigRequest>(QUEUE_CONFIG_SCHEMA)
export const parseQueueCreation = parser<QueueCreation>(CREATE_QUEUE_SCHEMA)
