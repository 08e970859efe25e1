/** What a step inherits from the options of its workflow. */
import { isJsonObject } from '../values/json-value.ts'

/** Names of the same option: a step that has one of them does not inherit any of them (OJS core). */
const ALIASES = [
  ['timeout_ms', 'timeout'],
  ['visibility_timeout_ms', 'visibility_timeout'],
  ['delay_until', 'scheduled_at'],
  ['meta', 'metadata'],
  ['retry', 'retry_policy'],
]

/** Members of a step that are not the job's. */
const STEP_MEMBERS = new Set(['id', 'depends_on'])

type Members = Readonly<Record<string, unknown>>

/**
 * Makes the body of a PUSH out of a step: the workflow's options, overridden by the step's member by member
 * (seed 001 §14.1), so that a step's `retry` replaces that of the workflow as a whole. Members of the step
 * outside `options` override them as well (ojs-choices C-2). An explicit null counts as absent.
 */
export function stepRequest(step: Members, defaults: Members): Record<string, unknown> {
  const own = Object.fromEntries(Object.entries(step).filter(([name]) => !STEP_MEMBERS.has(name)))
  const { options } = own
  // Invalid `options` stay as they are: the check of the job refuses them.
  if (options != null && !isJsonObject(options)) return own
  const inner = present(options ?? {})
  const inherited = withDefaults(defaults, { ...own, ...inner })
  if (Object.keys(inherited).length === 0) return own
  return { ...own, options: { ...inherited, ...inner } }
}

/** The options of a nested workflow: those of the outer workflow are its defaults. */
export function innerOptions(defaults: Members, inner: Members): Members {
  return { ...withDefaults(defaults, inner), ...present(inner) }
}

/** The defaults that `own` does not override. */
function withDefaults(defaults: Members, own: Members): Members {
  const given = new Set(Object.keys(present(own)))
  for (const names of ALIASES) {
    if (names.some((name) => given.has(name))) for (const name of names) given.add(name)
  }
  const hasAttempts = given.has('max_attempts')
  if (attemptsIn(own['retry'] ?? own['retry_policy']) != null) given.add('max_attempts')
  const inherited = Object.entries(present(defaults)).filter(([name]) => !given.has(name))
  // fromEntries defines own members: one called `__proto__` stays data.
  return Object.fromEntries(hasAttempts ? inherited.map(withoutAttempts) : inherited)
}

function attemptsIn(retry: unknown): unknown {
  return isJsonObject(retry) ? retry['max_attempts'] : undefined
}

/** An inherited retry policy beside a step's own `max_attempts`, which overrides that of the policy. */
function withoutAttempts([name, value]: [string, unknown]): [string, unknown] {
  const isPolicy = name === 'retry' || name === 'retry_policy'
  return isPolicy && isJsonObject(value) ? [name, { ...value, max_attempts: null }] : [name, value]
}

function present(members: Members): Members {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value != null))
}
