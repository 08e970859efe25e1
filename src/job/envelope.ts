/** Makes a job out of a validated request: defaults, both dialects, unknown members. */
import { echoed, invalidField, OjsError } from '../errors.ts'
import { type Concurrency, concurrencyIn, concurrencyOf } from './concurrency.ts'
import { timestamp, withSeconds } from './document.ts'
import type { Carry, NewJob } from './job.ts'
import { isKnownMember, isOptionMember } from './members.ts'
import { checkQueueName } from './queue-name.ts'
import type { PushOptions, PushRequest, UniqueRequest } from './request.ts'
import { checkAttempts, normaliseRetry } from './retry/retry-request.ts'
import { isTraceparent } from './trace/traceparent.ts'
import { uniqueEcho, uniqueOf } from './unique.ts'
import type { SortingBudget } from './values/canonical-json.ts'
import { leaseMsOf } from './values/duration.ts'
import { type Instant, parseInstant, toldInstant } from './values/instant.ts'
import { utf8Bytes } from './values/limits.ts'

/** What the rules need beside the request; they have no clock, randomness or configuration of their own. */
export interface EnvelopeContext {
  /** Returns the id to use when the request has none. */
  newId(): string
  /** Clock time, ms. */
  now: number
  /** Wall time, ms; `scheduled_at` and `expires_at` are compared with it. */
  wall: number
  timeoutMs: number
  /** How long a completed job is kept, and its result with it; default: for ever. */
  resultMs?: number
  prefix: string
  /** Carried beside the body: trace, idempotency key, headers and properties of a native message. */
  carry?: Carry
  /** The budget that all jobs of a request share; absent: the job has its own. */
  sorting?: SortingBudget
  /** Present for a job that was published natively. */
  native?: NativeContext
}

interface NativeContext {
  queue: string
  createdAt: number
  /** `x-ojs-max-attempts`: no execution has a higher number (seed 002 §8.3). */
  maxAttempts: number | null
  /**
   * Present if the message may have come before the job's time. `dueAt`: the time in its headers (wall time,
   * ms), which wins over the body's; null: there is none.
   */
  schedule?: { dueAt: number | null }
}

const MAX_META_BYTES = 65_536
const MAX_UTF8_BYTES = 3
const NAMED_PRIORITY = { HIGH: 10, NORMAL: 0, LOW: -10 } as const

/**
 * Makes a job out of a validated request: fills in defaults, unifies both dialects, and keeps every unknown
 * member. Throws `OjsError` for errors that a JSON Schema cannot express.
 */
export function toNewJob(request: PushRequest, context: EnvelopeContext): NewJob {
  return describeJob(request, context).job
}

/** A job, and the members that an answer shows of its envelope; undefined ones are not in the text. */
interface DescribedJob {
  job: NewJob
  members: Readonly<Record<string, unknown>>
}

/**
 * As `toNewJob`, and also returns the envelope as an object, which shares values with `request`. Longer than
 * 60 lines, because it mostly consists of two lists of members, which would not be clearer in pieces.
 */
export function describeJob(request: PushRequest, context: EnvelopeContext): DescribedJob {
  const options = mergeOptions(request)
  const queue = options.queue ?? context.native?.queue ?? 'default'
  checkQueueName(queue, context.prefix, fieldName(request, 'queue'))

  const { retry, maxAttempts } = attemptsOf(options, request, context)
  const { timeoutMs, visibilityMs, scheduledAt, expiresAt } = timesOf(options, request, context)
  const names = secondsIn(options, context)
  const priority = priorityOf(options.priority)
  const id = request.id ?? context.newId()
  const createdAt = context.native?.createdAt ?? context.now
  const tags = options.tags ?? context.carry?.tags ?? []
  const ownMeta = metaOf(request)
  const claim = options.unique ? claimOf(options.unique, request, queue, ownMeta, context) : null

  // No spread, and undefined members instead of conditional ones, for speed: this runs for every job.
  const known = {
    specversion: '1.0',
    id,
    type: request.type,
    queue,
    args: request.args,
    meta: withTrace(ownMeta, context.carry),
    priority,
    timeout: names.timeout ? inSeconds(timeoutMs) : undefined,
    timeout_ms: timeoutMs,
    visibility_timeout: names.visibility ? inSeconds(visibilityMs) : undefined,
    visibility_timeout_ms: visibilityMs ?? undefined,
    // A native message may name it in a header only, as with attempts and tags.
    scheduled_at: (scheduledAt ?? toldInstant(context.carry?.scheduledAt))?.text,
    expires_at: expiresAt?.text,
    max_attempts: maxAttempts,
    retry: retry.echo,
    retry_extra: retry.extra,
    unique: claim?.echo,
    unique_extra: claim?.extra,
    tags,
    schema: request.schema ?? undefined,
    rate_limit: options.rate_limit ?? undefined,
    concurrency: options.concurrency ?? undefined,
    result_ttl: options.result_ttl ?? undefined,
    created_at: timestamp(createdAt),
  }
  const members = withUnknown(known, request)
  const envelope = withSeconds(JSON.stringify(members), {
    timeout: names.timeout ? undefined : inSeconds(timeoutMs),
    visibility: names.visibility ? undefined : inSeconds(visibilityMs),
  })
  // Serialises `meta` once more only if the envelope is so large that `meta` may be too large: that is rare.
  if (envelope.length * MAX_UTF8_BYTES > MAX_META_BYTES) checkMetaSize(ownMeta)
  return {
    job: {
      id,
      type: request.type,
      queue,
      priority,
      maxAttempts,
      visibilityTimeoutMs: visibilityMs,
      timeoutMs,
      expiresAt: expiresAt?.ms ?? null,
      createdAt,
      envelope,
      carry: carryOf(context, tags, scheduledAt, limitOf(options, request, queue), options),
      start: startOf(options, scheduledAt, context),
      unique: claim?.unique ?? null,
    },
    members,
  }
}

/**
 * Merges `options` over the top level; an explicit null counts as absent. Different names of the same option
 * count as one: the level of `options` wins, whichever name it uses (OJS core, ojs-choices C-2). If one level has
 * two of the names, both are returned and the caller chooses, as it does without `options`. Leaves out
 * `meta`: see `metaOf`.
 */
function mergeOptions(request: PushRequest): Omit<PushOptions, 'meta' | 'metadata'> {
  const inner = request.options
  if (!inner) return request
  // Makes no object for each level, for speed: this runs for every job.
  const timeout = level(inner.timeout_ms ?? inner.timeout, inner, request)
  const lease = level(inner.visibility_timeout_ms ?? inner.visibility_timeout, inner, request)
  const start = level(inner.delay_until ?? inner.scheduled_at, inner, request)
  return {
    queue: inner.queue ?? request.queue ?? null,
    priority: inner.priority ?? request.priority ?? null,
    timeout_ms: timeout.timeout_ms ?? null,
    timeout: timeout.timeout ?? null,
    visibility_timeout_ms: lease.visibility_timeout_ms ?? null,
    visibility_timeout: lease.visibility_timeout ?? null,
    delay_until: start.delay_until ?? null,
    scheduled_at: start.scheduled_at ?? null,
    expires_at: inner.expires_at ?? request.expires_at ?? null,
    retry: inner.retry ?? inner.retry_policy ?? request.retry ?? request.retry_policy ?? null,
    max_attempts: inner.max_attempts ?? request.max_attempts ?? null,
    unique: inner.unique ?? request.unique ?? null,
    tags: inner.tags ?? request.tags ?? null,
    pending: inner.pending ?? request.pending ?? null,
    rate_limit: inner.rate_limit ?? request.rate_limit ?? null,
    concurrency: inner.concurrency ?? request.concurrency ?? null,
    result_ttl: either(inner.result_ttl, request.result_ttl),
  }
}

function either<T>(inner: T | undefined, outer: T | undefined): T | null {
  return inner ?? outer ?? null
}

/** The level to read an option from; `innerValue`: its value in `options`, under any of its names. */
function level(innerValue: unknown, inner: PushOptions, outer: PushOptions): PushOptions {
  return innerValue == null ? outer : inner
}

/** The producer's `meta`, merged from up to four places; `options` wins over the top level. */
export function metaOf({ options, meta, metadata }: PushRequest): Record<string, unknown> {
  const inner = together(options?.metadata, options?.meta)
  return together(together(metadata, meta), inner) ?? {}
}

/** Merges `over` over `base`, without a copy when only one of them is there, as nearly always. */
function together(base: Meta, over: Meta): Meta {
  if (base == null || over == null) return over ?? base
  return { ...base, ...over }
}

type Meta = PushRequest['meta']

/** A time as the client wrote it, and where. */
export interface NamedTime {
  text: string
  /** For `details.field`. */
  field: string
}

/** The times that a request names; null where it names none. */
export function namedTimes(request: PushRequest): Record<'start' | 'expiry', NamedTime | null> {
  const options = mergeOptions(request)
  const named = (name: 'delay_until' | 'scheduled_at' | 'expires_at'): NamedTime | null => {
    const text = options[name]
    return text == null ? null : { text, field: fieldName(request, name) }
  }
  return { start: named('delay_until') ?? named('scheduled_at'), expiry: named('expires_at') }
}

/** Throws 400 for a job that is to be discarded before its time comes: it could never run. */
export function requireStartBeforeExpiry(
  request: PushRequest,
  { start, expiresAt }: Pick<NewJob, 'start' | 'expiresAt'>,
): void {
  if (start.state === 'available' || start.dueAt === null) return
  if (expiresAt === null || expiresAt > start.dueAt) return
  const { start: begin, expiry } = namedTimes(request)
  const field = expiry?.field ?? 'expires_at'
  const text = `The '${field}' field must be later than '${begin?.field ?? 'scheduled_at'}': the job could never run.`
  throw invalidField(field, text, { received: echoed(expiry?.text ?? '') })
}

/** The path by which the client sent the option, for `details.field`. */
function fieldName(request: PushRequest, name: keyof PushOptions): string {
  return request.options?.[name] == null && request[name] != null ? name : `options.${name}`
}

/** As `fieldName`, for the retry policy, which has two names; checked in the order in which they win. */
function retryField({ options, retry }: PushRequest): string {
  if (options?.retry != null) return 'options.retry'
  if (options?.retry_policy != null) return 'options.retry_policy'
  return retry != null ? 'retry' : 'retry_policy'
}

/**
 * The state in which a job begins (OJS core). A native job message is deliverable already, even if it
 * names a future time, unless it came by the delayed exchange. A time that has passed counts as none.
 */
function startOf(
  options: PushOptions,
  scheduledAt: Instant | null,
  { wall, native }: EnvelopeContext,
): NewJob['start'] {
  if (native && !native.schedule) return { state: 'available' }
  const dueAt = scheduledAt !== null && scheduledAt.ms > wall ? scheduledAt.ms : null
  if (options.pending && !native) return { state: 'pending', dueAt }
  return dueAt === null ? { state: 'available' } : { state: 'scheduled', dueAt }
}

function seconds(value: number | null | undefined): number | undefined {
  return value == null ? undefined : value * 1000
}

function attemptsOf(options: PushOptions, request: PushRequest, context: EnvelopeContext) {
  const policy = options.retry ?? options.retry_policy
  const retry = normaliseRetry(policy, retryField(request))
  checkAttempts(options.max_attempts, fieldName(request, 'max_attempts'))
  const inHeader = context.native?.maxAttempts ?? null
  // A native producer may name the maximum in the header only (seed 002 §6.2).
  if (policy?.max_attempts == null) {
    return { retry, maxAttempts: inHeader ?? options.max_attempts ?? retry.maxAttempts }
  }
  return { retry, maxAttempts: Math.min(retry.maxAttempts, inHeader ?? retry.maxAttempts) }
}

function timesOf(options: PushOptions, request: PushRequest, context: EnvelopeContext) {
  return {
    timeoutMs: options.timeout_ms ?? seconds(options.timeout) ?? context.timeoutMs,
    visibilityMs: leaseMsOf(options, fieldName(request, 'visibility_timeout')),
    scheduledAt: scheduleOf(options, request, context),
    expiresAt: instant(options.expires_at, fieldName(request, 'expires_at'), context),
  }
}

/**
 * Which times the request itself named in seconds. In a message that has both units, the seconds are those
 * that `withSeconds` wrote.
 */
function secondsIn(options: PushOptions, { native }: EnvelopeContext) {
  const isOwn = (seconds: unknown, ms: unknown) => seconds != null && !(native && ms != null)
  return {
    timeout: isOwn(options.timeout, options.timeout_ms),
    visibility: isOwn(options.visibility_timeout, options.visibility_timeout_ms),
  }
}

/** Seed 003's times are in seconds and cannot say "no limit", which is 0 in `timeout_ms`. */
function inSeconds(ms: number | null): number | undefined {
  return ms === null || ms === 0 ? undefined : Math.ceil(ms / 1000)
}

function instant(
  text: string | null | undefined,
  field: string,
  context: EnvelopeContext,
): Instant | null {
  return text == null ? null : parseInstant(text, field, context.wall)
}

/** The due time. The headers of a native message win over its body, which is checked all the same. */
function scheduleOf(
  options: PushOptions,
  request: PushRequest,
  context: EnvelopeContext,
): Instant | null {
  const name = options.delay_until == null ? 'scheduled_at' : 'delay_until'
  const inBody = instant(options[name], fieldName(request, name), context)
  return nativeInstant(context) ?? inBody
}

function nativeInstant({ native }: EnvelopeContext): Instant | null {
  const ms = native?.schedule?.dueAt ?? null
  return ms === null ? null : { ms, text: timestamp(ms) }
}

function priorityOf(priority: PushOptions['priority']): number {
  return typeof priority === 'string' ? NAMED_PRIORITY[priority] : (priority ?? 0)
}

/**
 * Adds the trace context to `meta`, since workers over HTTP see no message headers. Keeps a `traceparent`
 * that the producer wrote into `meta` itself (OJS observability).
 */
function withTrace(meta: Record<string, unknown>, carry: Carry | undefined): typeof meta {
  const { traceparent, tracestate } = carry ?? {}
  if (traceparent === undefined || Object.hasOwn(meta, 'traceparent')) return meta
  if (!isTraceparent(traceparent)) return meta
  const isStateAbsent = tracestate !== undefined && !Object.hasOwn(meta, 'tracestate')
  return { ...meta, traceparent, ...(isStateAbsent && { tracestate }) }
}

function claimOf(
  policy: UniqueRequest,
  request: PushRequest,
  queue: string,
  meta: Record<string, unknown>,
  { sorting }: EnvelopeContext,
) {
  const subject = { type: request.type, queue, args: request.args, meta }
  const unique = uniqueOf(policy, subject, fieldName(request, 'unique'), sorting)
  const { echo, extra } = uniqueEcho(policy, unique)
  return { unique, echo, extra }
}

function limitOf(options: PushOptions, { type }: PushRequest, queue: string): Concurrency | null {
  // Asked first, for speed: this runs for every job.
  if (options.concurrency == null && options.rate_limit == null) return null
  const asked = concurrencyIn(options)
  return asked === null ? null : concurrencyOf(asked, { type, queue })
}

/** Null: the result is kept as long as the job, which may be shorter than the producer has asked for. */
function resultTtlOf(
  { result_ttl: ttl }: PushOptions,
  { resultMs = Number.POSITIVE_INFINITY }: EnvelopeContext,
): number | null {
  if (ttl == null || ttl < 0) return null
  const ms = ttl * 1_000
  return ms < resultMs ? ms : null
}

function checkMetaSize(meta: Record<string, unknown>): void {
  const bytes = utf8Bytes(JSON.stringify(meta))
  if (bytes <= MAX_META_BYTES) return
  throw new OjsError(
    'invalid_request',
    `The 'meta' field is larger than ${MAX_META_BYTES} bytes.`,
    {
      status: 413,
      details: { field: 'meta', actual_bytes: bytes, max_bytes: MAX_META_BYTES },
    },
  )
}

type Members = Record<string, unknown>

/** Adds the request's unknown members. Seed 003: "Unknown fields are preserved during round-tripping." */
function withUnknown(known: Members, request: PushRequest): Members {
  const outer = Object.keys(request).filter((name) => !isKnownMember(name))
  const options: Record<string, unknown> = { ...request.options }
  const inner = Object.keys(options).filter((name) => !isOptionMember(name))
  if (outer.length + inner.length === 0) return known
  const kept: [string, unknown][] = outer.map((name) => [name, request[name]])
  if (inner.length > 0) kept.push(['options', pick(options, inner)])
  // fromEntries and a spread define own members: one called `__proto__` stays data.
  return { ...known, ...Object.fromEntries(kept) }
}

function pick(source: Record<string, unknown>, names: readonly string[]): object {
  return Object.fromEntries(names.map((name) => [name, source[name]]))
}

function carryOf(
  context: EnvelopeContext,
  tags: readonly string[],
  scheduledAt: Instant | null,
  concurrency: Concurrency | null,
  options: PushOptions,
): Carry | null {
  const all: Carry = { ...context.carry }
  const resultTtlMs = resultTtlOf(options, context)
  if (concurrency) all.concurrency = concurrency
  if (resultTtlMs !== null) all.resultTtlMs = resultTtlMs
  if (tags.length > 0) all.tags = tags
  if (scheduledAt) all.scheduledAt = scheduledAt.text
  return Object.keys(all).length > 0 ? all : null
}
