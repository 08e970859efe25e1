import { isRecord } from './json.ts'

/** When a failed job runs again (seed 001 §9.1, seed 003). Intervals: milliseconds or ISO 8601. */
export interface RetryPolicy {
  /** Executions in all; 1: never again. */
  maxAttempts?: number
  initialIntervalMs?: number
  initialInterval?: string
  maxIntervalMs?: number
  maxInterval?: string
  /** At least 1. */
  backoffCoefficient?: number
  backoffStrategy?: 'exponential' | 'linear' | 'polynomial' | 'none' | 'constant'
  jitter?: boolean
  /** Codes or types of errors after which there is no retry; `auth.*` matches by prefix. */
  nonRetryableErrors?: string[]
  onExhaustion?: 'discard' | 'dead_letter'
}

/** Which jobs count as the same one, and what happens then (Level 4). */
export interface UniquePolicy {
  keys?: string[]
  argsKeys?: string[]
  metaKeys?: string[]
  /** ISO 8601. */
  period?: string
  states?: string[]
  onConflict?: 'reject' | 'replace' | 'replace_except_schedule' | 'ignore'
}

/**
 * How a job is enqueued. On the wire the names are snake_case (`WireJobOptions`); either spelling
 * may be given here, but not both of one member.
 */
export interface JobOptions extends WireJobOptions {
  /**
   * UUIDv7. Default: minted by the client. Enqueueing the same id and type again gives the job
   * that exists.
   */
  id?: string
  /** Goes with the job unchanged; nothing in it is renamed. */
  meta?: Record<string, unknown>
  /** URI of a registered schema that `args` must match. */
  schema?: string
  /** Not before then. */
  delayUntil?: string | Date
  /** Discarded when it has not run by then. */
  expiresAt?: string | Date
  /** How long one execution may take. */
  timeoutMs?: number
  /** How long a worker may be silent before the job is given to another. */
  visibilityTimeoutMs?: number
  rateLimit?: Record<string, unknown>
}

/** The `options` of a request as they are sent (seed 001 §9.1, "Options Fields"). */
export interface WireJobOptions {
  /** Default: the server's, `default`. */
  queue?: string
  /** Higher first; default 0. */
  priority?: number
  tags?: string[]
  /** True: waits until it is activated. */
  pending?: boolean
  retry?: RetryPolicy | Record<string, unknown>
  unique?: UniquePolicy | Record<string, unknown>
  delay_until?: string | Date
  scheduled_at?: string | Date
  expires_at?: string | Date
  timeout_ms?: number
  visibility_timeout_ms?: number
  rate_limit?: Record<string, unknown>
}

/** One job of a batch or workflow. */
export interface JobSpec {
  type: string
  /** One value stands for an array of it; absent: `[]`. */
  args?: unknown
  options?: JobOptions
}

/** A job as it is sent: the body of PUSH. */
export interface WireJob {
  id?: string
  type: string
  args: unknown[]
  meta?: Record<string, unknown>
  schema?: string
  options?: WireJobOptions
}

/** What enqueue middleware sees, and may change: the body of PUSH, with its id already minted. */
export interface EnqueueRequest extends WireJob {
  id: string
  options: WireJobOptions
}

/** `args` is an array on the wire (seed 004, "Key details"). */
function argsArray(args: unknown): unknown[] {
  if (args === undefined) return []
  return Array.isArray(args) ? args : [args]
}

/** Throws `TypeError` for a member that is given in both spellings. */
export function wireJob({ type, args, options = {} }: JobSpec): WireJob {
  const { id, meta, schema } = options
  // Without a spread: this runs for every job.
  const job: WireJob =
    id === undefined ? { type, args: argsArray(args) } : { id, type, args: argsArray(args) }
  if (meta !== undefined) job.meta = meta
  if (schema !== undefined) job.schema = schema
  const wire = snakeCased(options, BESIDE_OPTIONS)
  if (Object.keys(wire).length > 0) job.options = renamePolicies(wire)
  return job
}

/** Members of `JobOptions` that stand beside `options` on the wire. */
const BESIDE_OPTIONS: ReadonlySet<string> = new Set(['id', 'meta', 'schema'])

/** The policies inside are renamed too; what a user may name freely is not. */
export function wireOptions(options: JobOptions): WireJobOptions {
  return renamePolicies(snakeCased(options))
}

function renamePolicies(wire: WireJobOptions): WireJobOptions {
  if (wire.retry !== undefined) wire.retry = snakeCased(wire.retry)
  if (wire.unique !== undefined) wire.unique = snakeCased(wire.unique)
  return wire
}

/** Names in snake_case, dates as RFC 3339; members that are `undefined` or left out are not there. */
function snakeCased(given: object, leftOut = NOTHING): Record<string, unknown> {
  if (!isRecord(given)) throw new TypeError('Options and policies are objects.')
  const wire: Record<string, unknown> = {}
  for (const name of Object.keys(given)) {
    const value = given[name]
    if (value === undefined || leftOut.has(name)) continue
    const wireName = snakeCase(name)
    if (Object.hasOwn(wire, wireName)) {
      throw new TypeError(`${wireName} is given in two spellings.`)
    }
    wire[wireName] = value instanceof Date ? value.toISOString() : value
  }
  return wire
}

const NOTHING: ReadonlySet<string> = new Set()
const UPPER_CASE = /[A-Z]/

function snakeCase(name: string): string {
  if (!UPPER_CASE.test(name)) return name
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
