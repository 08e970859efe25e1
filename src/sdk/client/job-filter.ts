/** Which jobs a call means: a filter as TypeScript has it, and as the server reads it. */
import { isRecord, requireKnown } from '../async/options.ts'
import type { JobState } from '../job.ts'

type OneOrMore<T> = T | readonly T[]
/** A `Date`, an RFC 3339 time, or a duration such as `24h` or `P1D`, which means so long ago. */
type When = Date | string

/** Which jobs are meant: those for which everything that is given is true. */
export interface JobFilter {
  id?: OneOrMore<string> | undefined
  state?: OneOrMore<JobState> | undefined
  queue?: OneOrMore<string> | undefined
  /** `email.*`: every type that begins with `email.`. */
  type?: OneOrMore<string> | undefined
  /** The job has all of these. */
  tag?: OneOrMore<string> | undefined
  workerId?: string | undefined
  workflowId?: string | undefined
  /** The name of the cron entry that made it. */
  cron?: string | undefined
  errorCode?: string | undefined
  errorType?: string | undefined
  priority?: number | undefined
  /** Whether its concurrency key holds it back. */
  held?: boolean | undefined
  /** Created from then on, and before. */
  since?: When | undefined
  until?: When | undefined
  enqueuedSince?: When | undefined
  enqueuedUntil?: When | undefined
  endedSince?: When | undefined
  endedUntil?: When | undefined
  meta?: Readonly<Record<string, string | number | boolean>> | undefined
  /** What its `args` contain, at any depth of objects. */
  args?: unknown
}

const WIRE_NAMES: Readonly<Record<keyof JobFilter, string>> = {
  ...{ id: 'id', state: 'state', queue: 'queue', type: 'type', tag: 'tag' },
  ...{ workerId: 'worker_id', workflowId: 'workflow_id', cron: 'cron' },
  ...{ errorCode: 'error_code', errorType: 'error_type', priority: 'priority' },
  held: 'held',
  ...{ since: 'since', until: 'until', args: 'args', meta: 'meta' },
  ...{ enqueuedSince: 'enqueued_since', enqueuedUntil: 'enqueued_until' },
  ...{ endedSince: 'ended_since', endedUntil: 'ended_until' },
}

/** The members of a filter in a JSON body. Throws `TypeError` for what is no filter. */
export function wireFilter(filter: JobFilter): Record<string, unknown> {
  if (!isRecord(filter)) throw new TypeError('A filter of jobs must be an object.')
  requireKnown(filter, WIRE_NAMES, 'a filter of jobs')
  const wire: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(filter)) {
    if (value !== undefined) wire[WIRE_NAMES[name as keyof JobFilter]] = wireValue(name, value)
  }
  return wire
}

/** The same as parameters of a query. */
export function filterParameters(filter: JobFilter): Record<string, string | readonly string[]> {
  const { meta = {}, args, ...others } = wireFilter(filter)
  const parameters = Object.entries(others).map(([name, value]) => parameterOf(name, value))
  const ofMeta = Object.entries(meta as object).map(([key, value]) => [`meta.${key}`, `${value}`])
  const ofArgs = args === undefined ? [] : [['args', JSON.stringify(args)]]
  return Object.fromEntries([...parameters, ...ofMeta, ...ofArgs])
}

/** In a text commas separate values, and spaces beside them are none of theirs; those of `name[]` are as they are. */
function parameterOf(name: string, value: unknown): [string, string | readonly string[]] {
  if (!Array.isArray(value)) return [name, String(value)]
  const texts = value.map(String)
  const isClear = texts.every((text) => !text.includes(',') && text === text.trim())
  return isClear ? [name, texts.join(',')] : [`${name}[]`, texts]
}

function wireValue(name: string, value: unknown): unknown {
  if (name === 'meta') requireConditions(value)
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new TypeError(`The filter '${name}' is ${value}, and must be a finite number.`)
  if (value instanceof Date) return value.toISOString()
  // Of nothing there is no job, and no filter.
  if (Array.isArray(value) && name !== 'args' && value.length === 0)
    throw new TypeError(`The filter '${name}' is an empty list.`)
  return value
}

/** JSON would drop a condition that is undefined, and more jobs would be meant. */
function requireConditions(meta: unknown): void {
  const members = isRecord(meta) ? Object.entries(meta) : []
  if (members.length === 0) throw new TypeError("The filter 'meta' names no condition.")
  const missing = members.find(([, value]) => value == null)
  if (missing !== undefined) throw new TypeError(`The filter 'meta.${missing[0]}' has no value.`)
}
