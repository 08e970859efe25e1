/** Which members of a request are the job's, the server's, or settings in the wrong place. */
import { echoed, invalidField, type OjsError } from '../errors.ts'
import type { PushOptions, PushRequest } from './request.ts'
import { parseInstant } from './values/instant.ts'
import { membersOf } from './values/json-value.ts'
import { snakeCase } from './values/snake-case.ts'

// Which members of a request are a job's own, which only the server writes, and which are settings that stand
// where they would have no effect.

/** Options of a job, which may stand in `options` and beside it. */
const OPTIONS: ReadonlySet<string> = new Set([
  ...['queue', 'priority', 'timeout_ms', 'timeout', 'visibility_timeout_ms', 'visibility_timeout'],
  ...['delay_until', 'scheduled_at', 'expires_at', 'retry', 'retry_policy', 'max_attempts'],
  ...['unique', 'tags', 'pending', 'rate_limit', 'concurrency', 'result_ttl', 'meta', 'metadata'],
])

const ENVELOPE = ['specversion', 'id', 'type', 'args', 'schema', 'options']

/**
 * Members that only the server writes. They are ignored in a request (OJS core), so that a client can
 * post a job document again as it was read.
 */
const SYSTEM = [
  ...['state', 'attempt', 'generation', 'created_at', 'enqueued_at', 'started_at'],
  ...['worker_id', 'completed_at', 'cancelled_at', 'discarded_at', 'activated_at'],
  ...['previous_state', 're_enqueued_at', 'next_attempt_at', 'retry_delay_ms'],
  ...['result', 'error', 'errors', 'parent_results', 'workflow_id', 'workflow_step'],
  ...['x_ojs_generation', 'retry_extra', 'unique_extra', 'copy_of', 'retried_as'],
  'held_by',
  'result_expires_at',
]

const KNOWN: ReadonlySet<string> = new Set([...ENVELOPE, ...OPTIONS, ...SYSTEM])

export function isOptionMember(name: string): boolean {
  return OPTIONS.has(name)
}

/** False for a member that is kept as it is (seed 003). */
export function isKnownMember(name: string): boolean {
  return KNOWN.has(name)
}

/** What to do with a setting, by its name. */
type Places = ReadonlyMap<string, string>

/**
 * Settings that have no effect beside `options`. Without words that may well be data of the producer's own, such
 * as `key` or `period`.
 */
const BESIDE_OPTIONS: Places = new Map([
  ...belong("in 'options.retry'", [
    ...['initial_interval', 'initial_interval_ms', 'initial_delay_ms', 'max_interval'],
    ...['max_interval_ms', 'max_delay_ms', 'backoff_coefficient', 'backoff_strategy'],
    ...['backoff_type', 'jitter', 'non_retryable_errors', 'on_exhaustion'],
  ]),
  ...belong("in 'options.unique'", ['args_keys', 'meta_keys', 'period_ms', 'on_conflict']),
  ...belong("in 'options.rate_limit'", ['max_per_second']),
  ...belong('in a cron entry', ['cron', 'overlap_policy']),
  ...belong('in a step of a workflow', ['depends_on']),
  ...belong("in the header 'Idempotency-Key'", ['idempotency_key']),
])

const IN_OPTIONS: Places = new Map([
  ...BESIDE_OPTIONS,
  ...belong("in 'options.retry'", ['strategy']),
  ...belong("in 'options.unique'", ['key', 'keys', 'period', 'within', 'states']),
  ...belong('in a cron entry', ['expression', 'timezone']),
  ...belong("beside 'options'", ['specversion', 'id', 'type', 'args', 'schema']),
])

/** Other names and spellings of a cron entry's own members. Only there: in a job they may be data of the producer's. */
const IN_CRON: Places = new Map([
  ['tz', "its name is 'timezone'"],
  ['time_zone', "its name is 'timezone'"],
  ['overlap', "its name is 'overlap_policy'"],
  ['paused', "write 'enabled: false' for an entry that makes no jobs"],
  ['disabled', "write 'enabled: false' for an entry that makes no jobs"],
])

const CALLBACKS: Places = new Map(
  belong("in 'callbacks' of a batch", ['on_complete', 'on_success', 'on_failure']),
)

/** `meta` beside jobs is no setting of theirs. */
const OF_EACH_JOB = [...OPTIONS].filter((name) => name !== 'meta' && name !== 'metadata')

/** What has no effect … */
const MISPLACED = {
  /** … beside the `jobs` of a batch. */
  batch: new Map([
    ...BESIDE_OPTIONS,
    ...belong('in each job', [...OF_EACH_JOB, 'options', 'schema']),
  ]),
  /** … beside the steps of a workflow. `depends_on` is checked with the steps. */
  workflow: without(
    new Map([...BESIDE_OPTIONS, ...belong("in 'options'", OF_EACH_JOB), ...CALLBACKS]),
    ['depends_on'],
  ),
  /** … in a cron entry that has its job beside the schedule. */
  cron: without(new Map([...BESIDE_OPTIONS, ...IN_CRON]), ['cron', 'overlap_policy']),
  /** … beside a cron entry's `job_template`. */
  template: without(
    new Map([
      ...BESIDE_OPTIONS,
      ...IN_CRON,
      ...belong("in 'job_template'", [...OPTIONS, 'options', 'type', 'args', 'schema']),
    ]),
    ['cron', 'overlap_policy'],
  ),
} satisfies Record<string, Places>

const SPELLINGS: ReadonlySet<string> = new Set([...OPTIONS, ...IN_OPTIONS.keys(), 'job_template'])

function belong(place: string, names: readonly string[]): [string, string][] {
  return names.map((name) => [name, `it belongs ${place}`])
}

function without(places: Places, names: readonly string[]): Places {
  return new Map([...places].filter(([name]) => !names.includes(name)))
}

/**
 * Throws 400 for a setting in the wrong place or spelling, for two that contradict each other, and for a rate limit
 * that limits nothing or a pattern of errors that matches none. As an unknown member it would be kept, have no effect, and nobody would be told. Only for
 * requests of clients: what is stored or in RabbitMQ already is taken as it is.
 */
export function refuseMisplaced(request: PushRequest): void {
  const { options } = request
  refuseIn(request, BESIDE_OPTIONS, '')
  if (options) refuseIn(options, IN_OPTIONS, 'options.')
  refuseOtherAttempts(request)
  refuseOtherStart(request, '')
  refuseOtherRetry(request, '')
  if (options) {
    refuseOtherStart(options, 'options.')
    refuseOtherRetry(options, 'options.')
  }
  refuseNoLimit(request)
  refuseNoMatch(request)
}

function refuseOtherAttempts(request: PushRequest): void {
  const { options } = request
  const attempts = options?.max_attempts ?? request.max_attempts
  if (attempts == null) return
  const retry = options?.retry ?? options?.retry_policy ?? request.retry ?? request.retry_policy
  const expected = retry?.max_attempts ?? attempts
  if (attempts === expected) return
  const field = options?.max_attempts == null ? 'max_attempts' : 'options.max_attempts'
  throw contradiction(field, "'max_attempts' of 'retry'", attempts, expected)
}

/** Throws 400 for both names of the start with different instants. Between levels `options` wins (ojs-choices C-2). */
function refuseOtherStart({ delay_until, scheduled_at }: PushOptions, path: string): void {
  if (delay_until == null || scheduled_at == null || delay_until === scheduled_at) return
  const [field, other] = [`${path}scheduled_at`, `${path}delay_until`]
  if (parseInstant(scheduled_at, field, 0).ms === parseInstant(delay_until, other, 0).ms) return
  throw contradiction(field, `'${other}'`, echoed(scheduled_at), echoed(delay_until))
}

/** Throws 400 for both names of the policy with different members. */
function refuseOtherRetry({ retry, retry_policy }: PushOptions, path: string): void {
  if (retry == null || retry_policy == null) return
  const [one, other] = [membersOf(retry), membersOf(retry_policy)]
  const names = Object.keys({ ...one, ...other })
  if (names.every((name) => JSON.stringify(one[name]) === JSON.stringify(other[name]))) return
  throw invalidField(
    `${path}retry_policy`,
    `The '${path}retry_policy' field contradicts '${path}retry'.`,
  )
}

/** The limits of OJS's rate-limiting document: `rate` is kept for servers that enforce it; see `concurrencyIn`. */
const DOCUMENTED_LIMITS = ['rate', 'concurrency'] as const

/** Members that other servers know may stand beside `max_per_second`, but alone they would limit nothing. */
function refuseNoLimit({ options, rate_limit: outer }: PushRequest): void {
  const limit = options?.rate_limit ?? outer
  if (limit == null || limit['max_per_second'] != null) return
  if (DOCUMENTED_LIMITS.some((name) => limit[name] != null)) return
  const path = options?.rate_limit == null ? 'rate_limit' : 'options.rate_limit'
  refuseTwins(limit, RATE_TWINS, `${path}.`)
  const field = `${path}.max_per_second`
  throw invalidField(
    field,
    `The '${field}' field is required: no other member of '${path}' limits anything here.`,
    { validation: 'required' },
  )
}

const RETRY_NAMES = ['retry', 'retry_policy'] as const

/** Throws 400 for a `*` that is compared as it is, and which no error has: only `auth.*` matches several. */
function refuseNoMatch(request: PushRequest): void {
  const inner = RETRY_NAMES.find((name) => request.options?.[name] != null)
  const name = inner ?? RETRY_NAMES.find((one) => request[one] != null)
  if (name === undefined) return
  const errors = (inner ? request.options : request)?.[name]?.non_retryable_errors ?? []
  const received = errors.find((error) => error.includes('*') && !PREFIX_PATTERN.test(error))
  if (received === undefined) return
  const field = `${inner ? 'options.' : ''}${name}.non_retryable_errors`
  throw invalidField(
    field,
    `The '${field}' field has a '*' that matches nothing: only '.*' at the end of a name does. For no retries, set 'max_attempts' to 1.`,
    { validation: 'pattern', received: echoed(received) },
  )
}

const PREFIX_PATTERN = /^[^*]+\.\*$/

function contradiction(field: string, other: string, received: unknown, expected: unknown) {
  return invalidField(field, `The '${field}' field contradicts ${other}.`, { received, expected })
}

/** The same for the members that stand beside the jobs of a request. `path`: where `body` is in it. */
export function refuseBeside(what: keyof typeof MISPLACED, body: object, path = ''): void {
  refuseIn(body, MISPLACED[what], path === '' ? '' : `${path}.`)
}

/** Throws 400 for callbacks in a job of a workflow. In a job of its own they may be data of the producer's. */
export function refuseCallbacks(step: Readonly<Record<string, unknown>>, path: string): void {
  for (const [name, why] of CALLBACKS) {
    if (step[name] != null) throw misplaced(`${path}.${name}`, why)
  }
  refuseTwins(step, CALLBACK_TWINS, `${path}.`)
}

/** Runs for every PUSH: the usual members cost one look-up each. */
function refuseIn(body: object, places: Places, path: string): void {
  const members = membersOf(body)
  for (const name of Object.keys(members)) {
    const place = places.get(name)
    if (place === undefined && KNOWN.has(name)) continue
    if (members[name] == null) continue
    if (place !== undefined) throw misplaced(path + name, place)
    if (!UPPER_CASE.test(name)) continue
    const snake = snakeCase(name)
    if (!(SPELLINGS.has(snake) || places.has(snake))) continue
    throw misplaced(path + echoed(name), `its name is '${snake}'`)
  }
}

/** Members that are written in camelCase elsewhere, with their names here. */
type Twins = readonly (readonly [twin: string, name: string])[]

export function twinsOf(names: readonly string[]): Twins {
  const twins = names.map((name): [string, string] => [camelCase(name), name])
  return twins.filter(([twin, name]) => twin !== name)
}

/** Throws 400 for a member in camelCase. Looks only for the twins, for speed: FETCH and ACK come this way. */
export function refuseTwins(body: unknown, twins: Twins, path = ''): void {
  const members = membersOf(body)
  for (const [twin, name] of twins) {
    if (members[twin] != null) throw misplaced(path + twin, `its name is '${name}'`)
  }
}

function camelCase(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

const RATE_TWINS = twinsOf(['max_per_second'])
const CALLBACK_TWINS = twinsOf([...CALLBACKS.keys()])

const UPPER_CASE = /[A-Z]/

function misplaced(field: string, why: string): OjsError {
  return invalidField(field, `The '${field}' field would have no effect here: ${why}.`, {
    validation: 'misplaced',
  })
}
