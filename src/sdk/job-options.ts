import { requireObject } from './given.ts'
import type { JobState } from './job.ts'
import { isRecord } from './json.ts'

/** When a failed job runs again (seed 001 §9.1, seed 003). Intervals: milliseconds or ISO 8601. */
export interface RetryPolicy extends WireRetryPolicy {
  /** Executions in all; 1: never again. */
  maxAttempts?: number | undefined
  initialIntervalMs?: number | undefined
  initialInterval?: string | undefined
  maxIntervalMs?: number | undefined
  maxInterval?: string | undefined
  /** At least 1. */
  backoffCoefficient?: number | undefined
  backoffStrategy?: WireRetryPolicy['backoff_strategy']
  /** Codes or types of errors after which there is no retry; `auth.*` matches by prefix. */
  nonRetryableErrors?: readonly string[] | undefined
  onExhaustion?: WireRetryPolicy['on_exhaustion']
}

export interface WireRetryPolicy {
  max_attempts?: number | undefined
  initial_interval_ms?: number | undefined
  initial_interval?: string | number | undefined
  max_interval_ms?: number | undefined
  max_interval?: string | number | undefined
  backoff_coefficient?: number | undefined
  backoff_strategy?: 'exponential' | 'linear' | 'polynomial' | 'none' | 'constant' | undefined
  /** Delays of 0.5 to 1.5 times their length. */
  jitter?: boolean | undefined
  non_retryable_errors?: readonly string[] | undefined
  on_exhaustion?: 'discard' | 'dead_letter' | undefined
}

/** Which jobs count as the same one, and what happens then (Level 4). */
export interface UniquePolicy extends WireUniquePolicy {
  /** Only these fields of `args` count: names of members, or places (`0`). */
  argsKeys?: readonly string[] | undefined
  /** These members of `meta` count. */
  metaKeys?: readonly string[] | undefined
  onConflict?: WireUniquePolicy['on_conflict']
}

export interface WireUniquePolicy {
  /** What makes a job the same beside its type: of `type`, `queue`, `args` and `meta`. */
  keys?: readonly string[] | undefined
  /** Seed 003's name of `args_keys`. */
  key?: readonly string[] | undefined
  args_keys?: readonly string[] | undefined
  meta_keys?: readonly string[] | undefined
  /** ISO 8601, or seconds: jobs that were enqueued longer ago do not count. Default: all count. */
  period?: string | number | undefined
  /** Jobs in another state do not count. Default: all but the terminal states. */
  states?: readonly JobState[] | undefined
  /** `use_existing` and `drop` are other names of `ignore`. */
  on_conflict?:
    | 'reject'
    | 'replace'
    | 'replace_except_schedule'
    | 'ignore'
    | 'use_existing'
    | 'drop'
    | undefined
}

/** How often jobs of this type in this queue are started. Other servers know further members. */
export interface RateLimit {
  maxPerSecond?: number | undefined
  max_per_second?: number | undefined
  [member: string]: unknown
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
  id?: string | undefined
  /** Goes with the job unchanged; nothing in it is renamed. */
  meta?: Record<string, unknown> | undefined
  /** URI of a registered schema that `args` must match. */
  schema?: string | undefined
  /** Not before then. */
  delayUntil?: string | Date | undefined
  /** Another name of `delayUntil`. */
  scheduledAt?: string | Date | undefined
  /** Discarded when it has not run by then. */
  expiresAt?: string | Date | undefined
  /** How long one execution may take, in milliseconds. */
  timeoutMs?: number | undefined
  /** How long a worker may be silent before the job is given to another, in milliseconds. */
  visibilityTimeoutMs?: number | undefined
  retry?: RetryPolicy | undefined
  unique?: UniquePolicy | undefined
  rateLimit?: RateLimit | undefined
}

/** The `options` of a request as they are sent (seed 001 §9.1, "Options Fields"). */
export interface WireJobOptions {
  /** Default: the server's, `default`. */
  queue?: string | undefined
  /** Higher first; default 0. */
  priority?: number | undefined
  tags?: readonly string[] | undefined
  /** True: waits until it is activated. */
  pending?: boolean | undefined
  retry?: WireRetryPolicy | undefined
  unique?: WireUniquePolicy | undefined
  delay_until?: string | Date | undefined
  scheduled_at?: string | Date | undefined
  expires_at?: string | Date | undefined
  timeout_ms?: number | undefined
  visibility_timeout_ms?: number | undefined
  rate_limit?: RateLimit | undefined
}

/** One job of a batch or workflow. `id`, `meta` and `schema` may stand here or in `options`. */
export interface JobSpec extends Pick<JobOptions, 'id' | 'meta' | 'schema'> {
  type: string
  /** One value stands for an array of it; absent: `[]`. */
  args?: unknown
  options?: JobOptions | undefined
}

/** A job as it is sent: the body of PUSH. */
export interface WireJob {
  id?: string
  type: string
  args: unknown[]
  meta?: Record<string, unknown> | undefined
  schema?: string | undefined
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

/** Throws `TypeError` for a member that is given twice, and for one that a job does not have. */
export function wireJob(spec: JobSpec): WireJob {
  requireObject(spec, 'A job is an object with a type.')
  const { type, args, options = {} } = spec
  requireObject(options, 'The options of a job are an object.')
  // No list of entries: this runs for every job.
  for (const name in spec) requireMember(spec, name as keyof JobSpec)
  const id = either('id', spec, options)
  const meta = either('meta', spec, options)
  const schema = either('schema', spec, options)
  // Nor a spread.
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
const MEMBERS: ReadonlySet<string> = new Set(['type', 'args', 'options', ...BESIDE_OPTIONS])

/** Else a `queue` beside `options` would be lost, and the job be in another queue. */
function requireMember(spec: JobSpec, name: keyof JobSpec): void {
  if (MEMBERS.has(name) || spec[name] === undefined) return
  throw new TypeError(`'${name}' belongs into options; a job has ${[...MEMBERS].join(', ')}.`)
}

function either<Name extends 'id' | 'meta' | 'schema'>(
  name: Name,
  spec: JobSpec,
  options: JobOptions,
): JobOptions[Name] {
  if (spec[name] === undefined) return options[name]
  if (options[name] !== undefined) throw new TypeError(`${name} is given beside options and in it.`)
  return spec[name]
}

/** A server keeps what it does not know, unheeded: a job with a `qeue` would be in another queue. */
const OPTIONS: ReadonlySet<string> = new Set<keyof WireJobOptions>([
  'queue',
  'priority',
  'tags',
  'pending',
  'retry',
  'unique',
  'delay_until',
  'scheduled_at',
  'expires_at',
  'timeout_ms',
  'visibility_timeout_ms',
  'rate_limit',
])

function unknownOption(name: string): TypeError {
  return new TypeError(`'${name}' is no option of a job: ${[...OPTIONS].join(', ')}.`)
}

/** Of all jobs of a workflow; an id and a schema are a single job's. */
export type SharedOptions = Omit<JobOptions, 'id' | 'schema'>

/**
 * The policies inside are renamed too; what a user may name freely is not. Throws `TypeError` for what
 * a server would keep with each job, unheeded: `args` that no schema was asked about.
 */
export function wireOptions(options: SharedOptions): WireJobOptions {
  for (const name of ['id', 'schema'] satisfies (keyof JobOptions)[]) {
    if ((options as JobOptions)[name] === undefined) continue
    throw new TypeError(`'${name}' is a job's own, and no option of a workflow.`)
  }
  return renamePolicies(snakeCased(options))
}

function renamePolicies(wire: WireJobOptions): WireJobOptions {
  for (const name in wire) {
    if (!(OPTIONS.has(name) || BESIDE_OPTIONS.has(name))) throw unknownOption(name)
  }
  if (wire.retry !== undefined) wire.retry = snakeCased(wire.retry)
  if (wire.unique !== undefined) wire.unique = snakeCased(wire.unique)
  if (wire.rate_limit !== undefined) wire.rate_limit = snakeCased(wire.rate_limit)
  return wire
}

export function eitherSpelling<T>(name: string, one: T | undefined, other: T | undefined) {
  if (one !== undefined && other !== undefined) throw twice(name)
  return one ?? other
}

function twice(name: string): TypeError {
  return new TypeError(`${name} is given in two spellings.`)
}

/** Names in snake_case, dates as RFC 3339; members that are `undefined` or left out are not there. */
function snakeCased(given: object, leftOut = NOTHING): Record<string, unknown> {
  if (!isRecord(given)) throw new TypeError('Options and policies are objects.')
  const wire: Record<string, unknown> = {}
  for (const name of Object.keys(given)) {
    const value = given[name]
    if (value === undefined || leftOut.has(name)) continue
    const wireName = snakeCase(name)
    if (Object.hasOwn(wire, wireName)) throw twice(wireName)
    wire[wireName] = value instanceof Date ? rfc3339(wireName, value) : value
  }
  return wire
}

function rfc3339(name: string, date: Date): string {
  if (Number.isNaN(date.getTime())) throw new TypeError(`${name} is no valid date.`)
  return date.toISOString()
}

const NOTHING: ReadonlySet<string> = new Set()
const UPPER_CASE = /[A-Z]/

function snakeCase(name: string): string {
  if (!UPPER_CASE.test(name)) return name
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
