/** The options of a job in camelCase, and their form on the wire. */
import { isRecord, requireObject } from '../async/options.ts'
import type { ConcurrencyPolicy, RateLimit, WireRetryPolicy, WireUniquePolicy } from '../job.ts'

/** When a failed job runs again (seed 001 §9.1, seed 003). Intervals: milliseconds (`…Ms`) or ISO 8601. */
export interface RetryPolicy extends WireRetryPolicy {
  /** Executions in all; 1: the job is never retried. */
  maxAttempts?: number | undefined
  initialIntervalMs?: number | undefined
  initialInterval?: string | undefined
  maxIntervalMs?: number | undefined
  maxInterval?: string | undefined
  /** The factor between two delays. At least 1. */
  backoffCoefficient?: number | undefined
  backoffStrategy?: WireRetryPolicy['backoff_strategy']
  /** Error codes or types that are not retried; `auth.*` matches by prefix. */
  nonRetryableErrors?: readonly string[] | undefined
  onExhaustion?: WireRetryPolicy['on_exhaustion']
}

/** Which jobs count as duplicates of this one, and what happens to a duplicate (Level 4). */
export interface UniquePolicy extends WireUniquePolicy {
  /** Only these parts of `args` are compared: names of members, or positions (`0`). */
  argsKeys?: readonly string[] | undefined
  /** Only these members of `meta` are compared. */
  metaKeys?: readonly string[] | undefined
  periodMs?: number | undefined
  onConflict?: WireUniquePolicy['on_conflict']
}

/**
 * How a job is enqueued. Every name may be given in camelCase or, as on the wire (`WireJobOptions`), in
 * snake_case, but not in both at once.
 */
export interface JobOptions extends WireJobOptions {
  /** UUIDv7. Default: minted by the client. Enqueueing the same id and type again gives the existing job. */
  id?: string | undefined
  /** Data that travels with the job. The names in it are sent as they are, not changed to snake_case. */
  meta?: Record<string, unknown> | undefined
  /** URI of a registered schema that `args` must match. */
  schema?: string | undefined
  /** The job does not run before this time. */
  delayUntil?: string | Date | undefined
  /** Another name for `delayUntil`. */
  scheduledAt?: string | Date | undefined
  /** The job is discarded if it has not run by this time. */
  expiresAt?: string | Date | undefined
  /** How long one execution may take, in milliseconds. */
  timeoutMs?: number | undefined
  /** How long a worker may be silent before the job is given to another worker, in milliseconds. */
  visibilityTimeoutMs?: number | undefined
  retry?: RetryPolicy | undefined
  unique?: UniquePolicy | undefined
  rateLimit?: RateLimit | undefined
  /** How many jobs of a key are active at once. The others wait in line (`held_by`). */
  concurrency?: ConcurrencyPolicy | undefined
  /** For how many seconds its result is kept; 0: not at all, -1: as long as the job, which is the default. */
  resultTtl?: number | undefined
}

/** The `options` of a PUSH request as they are sent (seed 001 §9.1, "Options Fields"). */
export interface WireJobOptions {
  /** Default: the server's default queue, `default`. */
  queue?: string | undefined
  /** Jobs with a higher priority run first. Default 0. */
  priority?: number | undefined
  tags?: readonly string[] | undefined
  /** True: the job waits until `activateJob` is called. */
  pending?: boolean | undefined
  retry?: WireRetryPolicy | undefined
  unique?: WireUniquePolicy | undefined
  delay_until?: string | Date | undefined
  scheduled_at?: string | Date | undefined
  expires_at?: string | Date | undefined
  timeout_ms?: number | undefined
  visibility_timeout_ms?: number | undefined
  rate_limit?: RateLimit | undefined
  concurrency?: ConcurrencyPolicy | undefined
  result_ttl?: number | undefined
}

/** One job of a batch or workflow. `id`, `meta` and `schema` may be given here or in `options`. */
export interface JobSpec extends Pick<JobOptions, 'id' | 'meta' | 'schema'> {
  type: string
  /** An array. Any other value is wrapped into one; absent: `[]`. */
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

/** The body of PUSH as enqueue middleware sees it and may change it. Its id is already minted. */
export interface EnqueueRequest extends WireJob {
  id: string
  options: WireJobOptions
}

/** `args` is an array on the wire (seed 004, "Key details"). */
function argsArray(args: unknown): unknown[] {
  if (args === undefined) return []
  return Array.isArray(args) ? args : [args]
}

/** The body of PUSH. Throws `TypeError` for a member that is given twice or is unknown. */
export function wireJob(spec: JobSpec): WireJob {
  requireObject(spec, 'A job must be an object with a type.')
  const { type, args, options = {} } = spec
  requireObject(options, 'The options of a job must be an object.')
  // `for…in` allocates no list of entries: this runs for every job.
  for (const name in spec) requireMember(spec, name as keyof JobSpec)
  const id = onlyOne('id', spec, options)
  const meta = onlyOne('meta', spec, options)
  const schema = onlyOne('schema', spec, options)
  // For the same reason no spread.
  const job: WireJob =
    id === undefined ? { type, args: argsArray(args) } : { id, type, args: argsArray(args) }
  if (meta !== undefined) job.meta = meta
  if (schema !== undefined) job.schema = schema
  const wire = snakeCased(options, BESIDE_OPTIONS)
  if (Object.keys(wire).length > 0) job.options = renamePolicies(wire)
  return job
}

/** Members of `JobOptions` that are beside `options` on the wire, not in it. */
const BESIDE_OPTIONS: ReadonlySet<string> = new Set(['id', 'meta', 'schema'])
const MEMBERS: ReadonlySet<string> = new Set(['type', 'args', 'options', ...BESIDE_OPTIONS])

/**
 * Throws for an unknown member. Otherwise a `queue` beside `options` would be dropped, and the job would be
 * enqueued in another queue.
 */
function requireMember(spec: JobSpec, name: keyof JobSpec): void {
  if (MEMBERS.has(name) || spec[name] === undefined) return
  const names = [...MEMBERS].join(', ')
  throw new TypeError(`'${name}' is not a member of a job (${names}); options belong in 'options'.`)
}

function onlyOne<Name extends 'id' | 'meta' | 'schema'>(
  name: Name,
  spec: JobSpec,
  options: JobOptions,
): JobOptions[Name] {
  if (spec[name] === undefined) return options[name]
  if (options[name] !== undefined)
    throw new TypeError(`'${name}' is given both in the job and in its options.`)
  return spec[name]
}

/**
 * All options of a job. Others are refused here: a server stores unknown options and ignores them, so a job
 * with `qeue` would be enqueued in another queue.
 */
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
  'concurrency',
  'result_ttl',
])

function unknownOption(name: string): TypeError {
  return new TypeError(`'${name}' is not an option of a job: these are ${[...OPTIONS].join(', ')}.`)
}

/** Options for all jobs of a workflow. An id and a schema can only belong to a single job. */
export type SharedOptions = Omit<JobOptions, 'id' | 'schema'>

/**
 * The options in wire form: the members of the policies are renamed too, but not names that users choose (in
 * `meta`). Throws `TypeError` for `id` and `schema`: a server would store them with each job and ignore them,
 * so that no `args` would be checked against the schema.
 */
export function wireOptions(options: SharedOptions): WireJobOptions {
  for (const name of ['id', 'schema'] satisfies (keyof JobOptions)[]) {
    if ((options as JobOptions)[name] === undefined) continue
    throw new TypeError(`'${name}' is not an option of a workflow: only a single job can have it.`)
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
  if (one !== undefined && other !== undefined) throw givenTwice(name)
  return one ?? other
}

function givenTwice(name: string): TypeError {
  return new TypeError(`'${name}' is given in two spellings: snake_case and camelCase.`)
}

/** Changes names to snake_case and dates to RFC 3339; drops members that are `undefined` or in `leftOut`. */
function snakeCased(given: object, leftOut = NOTHING): Record<string, unknown> {
  if (!isRecord(given)) throw new TypeError('Options and policies must be objects.')
  const wire: Record<string, unknown> = {}
  for (const name of Object.keys(given)) {
    const value = given[name]
    if (value === undefined || leftOut.has(name)) continue
    const wireName = snakeCase(name)
    if (Object.hasOwn(wire, wireName)) throw givenTwice(wireName)
    wire[wireName] = value instanceof Date ? rfc3339(wireName, value) : value
  }
  return wire
}

function rfc3339(name: string, date: Date): string {
  if (Number.isNaN(date.getTime())) throw new TypeError(`'${name}' must be a valid date.`)
  return date.toISOString()
}

const NOTHING: ReadonlySet<string> = new Set()
const UPPER_CASE = /[A-Z]/

function snakeCase(name: string): string {
  if (!UPPER_CASE.test(name)) return name
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
