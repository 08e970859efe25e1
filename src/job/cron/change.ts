/** PATCH of a cron entry: the registration that the entry would have, had it been made so. */
import { invalidField, OjsError } from '../../errors.ts'
import { isKnownMember, isOptionMember } from '../members.ts'
import type { PushRequest } from '../request.ts'
import { isJsonObject } from '../values/json-value.ts'
import type { CronEntry } from './entry.ts'

type Members = Record<string, unknown>

const OWN = new Set([
  ...['cron', 'expression', 'timezone', 'overlap_policy', 'enabled', 'description'],
])
const OF_TEMPLATE = new Set(['type', 'args', 'schema'])
/** What only the server sets, and the name; ignored, so that an entry may be sent back as it was read (CRON-06). */
const OF_SERVER = new Set([
  ...['name', 'id', 'status', 'created_at', 'run_count', 'last_run_at', 'last_job_id'],
  ...['next_run_at', 'queued_ticks'],
])

/** A change of an entry. */
export interface CronChange {
  /** Members of the entry itself. */
  own: Members
  template: Members
  options: Members
}

/**
 * Reads the body of a PATCH: members at the top, in `options` or in `job_template`, as in a registration.
 * A member that is null counts as absent, as everywhere: it stays as it is. Throws 400 for a member that means
 * nothing here, and if there is nothing to change.
 */
export function readChange(body: Members): CronChange {
  const change: CronChange = { own: {}, template: {}, options: {} }
  const { job_template: template, ...members } = body
  readMembers(change, members, '')
  if (template != null) readMembers(change, objectOf(template, 'job_template'), 'job_template.')
  const { cron, expression } = change.own
  if (cron != null && expression != null && cron !== expression) {
    throw invalidField('expression', "'cron' and 'expression' differ.")
  }
  const isEmpty = Object.values(change).every((part) => Object.keys(part).length === 0)
  if (isEmpty) throw new OjsError('invalid_request', 'The body changes nothing.')
  return change
}

function readMembers(change: CronChange, members: Members, path: string): void {
  for (const [name, value] of Object.entries(members)) {
    const part = partOf(change, name, path)
    if (name === 'options' && value != null) {
      Object.assign(change.options, withoutNull(objectOf(value, `${path}options`)))
    } else if (part !== undefined && value !== null) part[name] = value
    else if (part === undefined && name !== 'options' && (path !== '' || !OF_SERVER.has(name))) {
      throw invalidField(`${path}${name}`, `The '${path}${name}' field is not known.`, {
        validation: 'unknown',
      })
    }
  }
}

/** Undefined: the member is none of a change. */
function partOf(change: CronChange, name: string, path: string): Members | undefined {
  if (isOptionMember(name)) return change.options
  if (OF_TEMPLATE.has(name)) return change.template
  return path === '' && OWN.has(name) ? change.own : undefined
}

function withoutNull(members: Members): Members {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))
}

function objectOf(value: unknown, field: string): Members {
  if (isJsonObject(value)) return value
  throw invalidField(field, `The '${field}' field must be a JSON object.`)
}

/** True if the change leaves the jobs and the times of the entry as they are. */
export function isSwitch({ own, template, options }: CronChange): boolean {
  const changed = [...Object.keys(own), ...Object.keys(template), ...Object.keys(options)]
  return changed.every((name) => name === 'enabled') && typeof own['enabled'] === 'boolean'
}

/** Options that mean the same: the one that is changed takes the place of the others. */
const SAME = [
  ['meta', 'metadata'],
  ['timeout_ms', 'timeout'],
  ['visibility_timeout_ms', 'visibility_timeout'],
  ['delay_until', 'scheduled_at'],
  ['retry', 'retry_policy'],
]

/** The body of a registration of the entry after the change. */
export function changedRegistration(entry: CronEntry, change: CronChange): Members {
  const { expression, timezone, overlap, isEnabled, description, name } = entry
  const { expression: spelled, ...own } = change.own
  const kept = {
    ...{ cron: expression, timezone, overlap_policy: overlap },
    ...{ enabled: isEnabled, description },
  }
  const template = changedTemplate(entry.template, change)
  // Beside the schedule, members that only a worker knows would be lost.
  const isPlain = Object.keys(template).every((member) => isKnownMember(member))
  return {
    ...(isPlain ? template : { job_template: template }),
    ...kept,
    ...(spelled != null && { cron: spelled }),
    ...own,
    name,
  }
}

function changedTemplate({ options, ...others }: PushRequest, change: CronChange): Members {
  const given = Object.keys(change.options)
  const gone = new Set([
    ...given,
    ...SAME.filter((names) => names.some((one) => given.includes(one))).flat(),
  ])
  return {
    ...without(others, gone),
    ...change.template,
    options: { ...without(options ?? {}, gone), ...change.options },
  }
}

function without(members: object, gone: ReadonlySet<string>): Members {
  return Object.fromEntries(Object.entries(members).filter(([name]) => !gone.has(name)))
}
