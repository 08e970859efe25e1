/** When two jobs are the same: the `unique` policy and its key. */
import { echoed, invalidField } from '../errors.ts'
import { timestamp } from './document.ts'
import {
  isTerminal,
  JOB_STATES,
  type JobRow,
  type JobState,
  type NewJob,
  type OnConflict,
  type Unique,
} from './job.ts'
import type { UniqueRequest } from './request.ts'
import { canonicalJson, normal, type SortingBudget, sha256 } from './values/canonical-json.ts'
import { formatDuration, MAX_DURATION_MS, parseDuration } from './values/duration.ts'
import { isJsonObject } from './values/json-value.ts'

/** The parts of a job that its unique key is made of. */
interface Subject {
  type: string
  queue: string
  args: readonly unknown[]
  meta: Readonly<Record<string, unknown>>
}

/** Which parts the policy names, in either dialect; the type is always part of the key (OJS unique jobs). */
interface Dimensions {
  queue: boolean
  /** All args, or the fields in them that count. */
  args: 'all' | readonly string[]
  meta: readonly string[]
}

const DIMENSIONS = ['type', 'queue', 'args', 'meta']
const SEED_CONFLICTS = ['reject', 'replace', 'ignore']

/** The names of `on_conflict` in OJS's documents (OJS unique jobs). */
const CONFLICTS: ReadonlyMap<string, OnConflict> = new Map([
  ['reject', 'reject'],
  ['replace', 'replace'],
  ['ignore', 'ignore'],
  ['replace_except_schedule', 'replace_except_schedule'],
  ['use_existing', 'ignore'],
  ['drop', 'ignore'],
])

export const CONFLICT_NAMES: readonly string[] = [...CONFLICTS.keys()]

/** The states that seed 003 allows in a policy; also the default. */
const LIVE_STATES = ['scheduled', 'available', 'pending', 'active', 'retryable'] as const

/**
 * Converts a producer's `unique` policy to the form that the ledger applies. `field`: the policy's place in
 * the request. Throws `OjsError` 400 with `details.field` for unknown names, for `meta` without `meta_keys`,
 * and for an invalid period; 413 for more members than `sorting`, the request's budget, allows.
 */
export function uniqueOf(
  policy: UniqueRequest,
  subject: Subject,
  field: string,
  sorting?: SortingBudget,
): Unique {
  const { states, periodMs, onConflict } = termsOf(policy, field)
  const key = keyOf(dimensionsOf(policy, field, subject.args), subject, sorting)
  return { key, states, periodMs, onConflict }
}

/** The policy of a stored job, without its key, which was computed when the job was stored. */
export function storedTerms(envelope: string): Omit<Unique, 'key'> {
  const { unique, unique_extra }: Partial<Record<string, object>> = JSON.parse(envelope)
  return termsOf({ ...unique, ...unique_extra }, 'unique')
}

/** Whether the policy of a stored job compares the queue, so that it concerns no job of another one. */
export function comparesQueue(envelope: string): boolean {
  const { unique, unique_extra, args } = JSON.parse(envelope)
  return dimensionsOf({ ...unique, ...unique_extra }, 'unique', args).queue
}

function termsOf(policy: UniqueRequest, field: string): Omit<Unique, 'key'> {
  return {
    states: statesOf(policy, field),
    periodMs: periodOf(policy, field),
    onConflict: conflictOf(policy, field),
  }
}

function dimensionsOf(policy: UniqueRequest, field: string, args: readonly unknown[]): Dimensions {
  const { keys, args_keys: argsKeys, meta_keys: metaKeys } = policy
  const fields = [...(policy.key ?? []), ...(argsKeys ?? [])]
  // Seed 003's form names no default for `key`: all of the args count (ojs-choices C-50).
  const isSeedForm = keys == null && argsKeys == null && metaKeys == null
  // As fields, names that no arg has would make all jobs of the type equal.
  if (isSeedForm && areDimensions(fields, args)) {
    return dimensionsOf({ ...policy, key: null, keys: fields }, field, args)
  }
  if (isSeedForm) return { queue: false, args: fields.length > 0 ? fields : 'all', meta: [] }
  const named = new Set(keys ?? [])
  for (const name of named) checkName(name, DIMENSIONS, `${field}.keys`)
  const meta = metaKeys ?? []
  if (named.has('meta') && meta.length === 0) {
    const metaField = `${field}.meta_keys`
    throw invalidField(metaField, `The '${metaField}' field is required if 'keys' names 'meta'.`)
  }
  // Named fields count even if `keys` does not name `args` or `meta`: two jobs that differ in a field which
  // the producer lists must not be duplicates.
  const allArgs = named.has('args') && fields.length === 0
  return { queue: named.has('queue'), args: allArgs ? 'all' : fields, meta }
}

/** True for `key: ["type", "args"]` of a client that means `keys`. */
function areDimensions(names: readonly string[], args: readonly unknown[]): boolean {
  if (names.length === 0 || !names.every((name) => DIMENSIONS.includes(name))) return false
  return fieldsNamed(names, args).size === 0
}

/** The SHA-256 of the parts that count, with the members in the order of RFC 8785. */
function keyOf(
  { queue, args, meta }: Dimensions,
  subject: Subject,
  sorting: SortingBudget | undefined,
): string {
  let text = '{'
  if (args === 'all') text += `"args":${canonicalJson(subject.args, sorting)},`
  else if (args.length > 0) {
    text += `"args":${canonicalJson(argsNamed(args, subject.args), sorting)},`
  }
  if (meta.length > 0) text += `"meta":${canonicalJson(membersNamed(meta, subject.meta), sorting)},`
  if (queue) text += `"queue":${canonicalJson(subject.queue)},`
  return sha256(`${text}"type":${canonicalJson(subject.type)}}`)
}

/** The named fields of the args. A missing one is no error; it equals a missing one (OJS unique jobs). */
function argsNamed(names: readonly string[], args: readonly unknown[]): object {
  const fields = fieldsNamed(names, args)
  const found = names.flatMap((name) => {
    if (isPlace(name, args)) return [[name, args[Number(name)]] as const]
    const own = normal(name)
    return fields.has(own) ? [[name, fields.get(own)] as const] : []
  })
  // fromEntries defines own members: a field called `__proto__` stays data.
  return Object.fromEntries(found)
}

function isPlace(name: string, args: readonly unknown[]): boolean {
  return /^(0|[1-9]\d{0,8})$/.test(name) && Number(name) < args.length
}

/**
 * The value of each named field in the first object that has it. Compares names in NFC, as the same name may
 * be typed differently on two machines, and a field that is not found would make all jobs equal. One pass: a
 * client can send as many names and args as a body holds, and to search each arg for each name could block
 * the process for half an hour.
 */
function fieldsNamed(
  names: readonly string[],
  args: readonly unknown[],
): ReadonlyMap<string, unknown> {
  const wanted = new Set(names.map(normal))
  const fields = new Map<string, unknown>()
  for (const arg of args) {
    if (!isJsonObject(arg)) continue
    for (const name of Object.keys(arg)) {
      const own = normal(name)
      if (wanted.has(own) && !fields.has(own)) fields.set(own, arg[name])
    }
  }
  return fields
}

function membersNamed(names: readonly string[], source: Subject['meta']): object {
  const fields = fieldsNamed(names, [source])
  const found = names.filter((name) => fields.has(normal(name)))
  return Object.fromEntries(found.map((name) => [name, fields.get(normal(name))]))
}

/** The states in which a job is a duplicate. An empty list, which nothing can match, means the default. */
function statesOf({ states }: UniqueRequest, field: string): readonly JobState[] {
  if (states == null || states.length === 0) return LIVE_STATES
  const named = new Set(states)
  for (const name of named) checkName(name, JOB_STATES, `${field}.states`)
  return JOB_STATES.filter((state) => named.has(state))
}

/** The names of the period: of several, the first counts. `within` is that of OJS's command line. */
const PERIODS = ['period_ms', 'period', 'within'] as const

function periodOf(policy: UniqueRequest, field: string): number | null {
  const member = PERIODS.find((candidate) => policy[candidate] != null)
  const period = member && policy[member]
  if (period == null) return null
  const name = `${field}.${member}`
  const seconds = typeof period === 'number' ? period * (member === 'period_ms' ? 1 : 1000) : null
  const ms = seconds ?? parseDuration(String(period), name)
  if (ms < 1) throw invalidField(name, `The '${name}' field must be longer than 0.`)
  if (ms > MAX_DURATION_MS) {
    throw invalidField(name, `The '${name}' field must not be longer than ten years.`)
  }
  return ms
}

function conflictOf({ on_conflict: named }: UniqueRequest, field: string): OnConflict {
  const policy = CONFLICTS.get(named ?? 'reject')
  if (policy !== undefined) return policy
  throw invalidField(
    `${field}.on_conflict`,
    `The '${field}.on_conflict' field must be one of ${CONFLICT_NAMES.join(', ')}.`,
  )
}

function checkName(name: string, known: readonly string[], field: string): void {
  if (known.includes(name)) return
  throw invalidField(field, `The '${field}' field must only name ${known.join(', ')}.`, {
    received: echoed(name),
    allowed: known,
  })
}

/**
 * The policy as the job's document shows it: `unique` in seed 003's closed form, and in `extra` the members
 * that this form does not allow (ojs-choices C-49). The policy must have passed `uniqueOf`, which returns
 * `periodMs`.
 */
export function uniqueEcho(
  policy: UniqueRequest,
  { periodMs }: Pick<Unique, 'periodMs'>,
): { echo: object; extra: object | undefined } {
  const { key, keys, args_keys, meta_keys, states, on_conflict } = policy
  const isSeedStates = states?.every((state) => LIVE_STATES.some((live) => live === state))
  const isSeedConflict = on_conflict != null && SEED_CONFLICTS.includes(on_conflict)
  const extra = withoutNull({
    keys,
    args_keys,
    meta_keys,
    on_conflict: isSeedConflict ? null : on_conflict,
    states: isSeedStates ? null : states,
  })
  const echo = withoutNull({
    key,
    period: periodMs === null ? null : periodText(policy, periodMs),
    on_conflict: isSeedConflict ? on_conflict : null,
    states: isSeedStates ? states : null,
  })
  return { echo, extra: Object.keys(extra).length > 0 ? extra : undefined }
}

/** The period as the producer wrote it if that is ISO 8601, as in seed 003; else in that form. */
function periodText({ period, within, period_ms }: UniqueRequest, ms: number): string {
  const given = period_ms ?? period ?? within
  return typeof given === 'string' && given.startsWith('P') ? given : formatDuration(ms)
}

function withoutNull(source: Record<string, unknown>): object {
  const rest: Record<string, unknown> = {}
  for (const name of Object.keys(source)) if (source[name] != null) rest[name] = source[name]
  return rest
}

/** The states in which a job can be cancelled to be replaced by another. */
export function replaceableStates(states: readonly JobState[]): JobState[] {
  return states.filter((state) => !isTerminal(state))
}

/** For `replace_except_schedule`: the new job with the due time of the scheduled job that it replaces. */
export function atTimeOf(replaced: JobRow, job: NewJob): NewJob {
  const { dueAt } = replaced
  if (replaced.state !== 'scheduled' || dueAt === null) return job
  const before: { scheduled_at?: unknown } = JSON.parse(replaced.envelope)
  const scheduledAt = String(before.scheduled_at ?? timestamp(dueAt))
  const envelope: object = JSON.parse(job.envelope)
  return {
    ...job,
    // `envelope` may have an own member `__proto__`: a spread copies it as one.
    envelope: JSON.stringify({ ...envelope, scheduled_at: scheduledAt }),
    carry: { ...job.carry, scheduledAt },
    start: { state: job.start.state === 'pending' ? 'pending' : 'scheduled', dueAt },
  }
}
