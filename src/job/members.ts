/** Which members of a request are the job's, the server's, or settings in the wrong place. */
import { echoed, invalidField, type OjsError } from '../errors.ts'
import type { PushRequest } from './request.ts'

// Which members of a request are a job's own, which only the server writes, and which are settings that stand
// where they would have no effect.

/** Options of a job, which may stand in `options` and beside it. */
const OPTIONS: ReadonlySet<string> = new Set([
  ...['queue', 'priority', 'timeout_ms', 'timeout', 'visibility_timeout_ms', 'visibility_timeout'],
  ...['delay_until', 'scheduled_at', 'expires_at', 'retry', 'retry_policy', 'max_attempts'],
  ...['unique', 'tags', 'pending', 'rate_limit', 'meta', 'metadata'],
])

const ENVELOPE = ['specversion', 'id', 'type', 'args', 'schema', 'options']

/**
 * Members that only the server writes. They are ignored in a request (OJS core), so that a client can
 * post a job document again as it was read.
 */
const SYSTEM = [
  ...['state', 'attempt', 'created_at', 'enqueued_at', 'started_at', 'worker_id'],
  ...['completed_at', 'cancelled_at', 'discarded_at', 'activated_at', 'previous_state'],
  ...['re_enqueued_at', 'next_attempt_at', 'retry_delay_ms', 'result', 'error', 'errors'],
  ...['parent_results', 'workflow_id', 'workflow_step'],
  ...['x_ojs_generation', 'retry_extra', 'unique_extra'],
]

const KNOWN: ReadonlySet<string> = new Set([...ENVELOPE, ...OPTIONS, ...SYSTEM])

export function isOptionMember(name: string): boolean {
  return OPTIONS.has(name)
}

/** False for a member that is kept as it is (seed 003). */
export function isKnownMember(name: string): boolean {
  return KNOWN.has(name)
}

/** Where a setting belongs, by its name. */
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
  ...belong("in 'options.unique'", ['key', 'keys', 'period', 'states']),
  ...belong('in a cron entry', ['expression', 'timezone']),
  ...belong("beside 'options'", ['specversion', 'id', 'type', 'args', 'schema']),
])

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
  workflow: without(new Map([...BESIDE_OPTIONS, ...belong("in 'options'", OF_EACH_JOB)]), [
    'depends_on',
  ]),
  /** … in a cron entry that has its job beside the schedule. */
  cron: without(BESIDE_OPTIONS, ['cron', 'overlap_policy']),
  /** … beside a cron entry's `job_template`. */
  template: without(
    new Map([
      ...BESIDE_OPTIONS,
      ...belong("in 'job_template'", [...OPTIONS, 'options', 'type', 'args', 'schema']),
    ]),
    ['cron', 'overlap_policy'],
  ),
} satisfies Record<string, Places>

const SPELLINGS: ReadonlySet<string> = new Set([...OPTIONS, ...IN_OPTIONS.keys(), 'job_template'])

function belong(place: string, names: readonly string[]): [string, string][] {
  return names.map((name) => [name, place])
}

function without(places: Places, names: readonly string[]): Places {
  return new Map([...places].filter(([name]) => !names.includes(name)))
}

/**
 * Throws 400 for a setting in the wrong place or spelling, and for two that contradict each other. As an unknown
 * member it would be kept, have no effect, and nobody would be told. Only for requests of clients: what is stored
 * or in RabbitMQ already is taken as it is.
 */
export function refuseMisplaced(request: PushRequest): void {
  const { options } = request
  refuseIn(request, BESIDE_OPTIONS, '')
  if (options) refuseIn(options, IN_OPTIONS, 'options.')
  const attempts = options?.max_attempts ?? request.max_attempts
  if (attempts == null) return
  const retry = options?.retry ?? options?.retry_policy ?? request.retry ?? request.retry_policy
  const expected = retry?.max_attempts ?? attempts
  if (attempts === expected) return
  const field = options?.max_attempts == null ? 'max_attempts' : 'options.max_attempts'
  throw invalidField(field, `The '${field}' field contradicts 'max_attempts' of 'retry'.`, {
    received: attempts,
    expected,
  })
}

/** The same for the members that stand beside the jobs of a request. `path`: where `body` is in it. */
export function refuseBeside(what: keyof typeof MISPLACED, body: object, path = ''): void {
  refuseIn(body, MISPLACED[what], path === '' ? '' : `${path}.`)
}

function refuseIn(body: object, places: Places, path: string): void {
  for (const [name, value] of Object.entries(body)) {
    if (value == null) continue
    const place = places.get(name)
    if (place !== undefined) throw misplaced(path + name, `it belongs ${place}`)
    if (!UPPER_CASE.test(name)) continue
    const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    if (SPELLINGS.has(snake)) throw misplaced(path + echoed(name), `its name is '${snake}'`)
  }
}

const UPPER_CASE = /[A-Z]/

function misplaced(field: string, why: string): OjsError {
  return invalidField(field, `The '${field}' field would have no effect here: ${why}.`, {
    validation: 'misplaced',
  })
}
