/** What a request may ask for, as a `JobFilter`. A filter never means more than was asked for. */
import { echoed, invalidField, type OjsError } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import { JOB_STATES, type JobState } from '../../job/job.ts'
import { ANY_JOB, type JobFilter, type Span, type TypePattern } from '../../job/search/filter.ts'
import { parseDuration } from '../../job/values/duration.ts'
import { parseInstant } from '../../job/values/instant.ts'
import { isJsonObject } from '../../job/values/json-value.ts'
import { refuseUnkeepable } from '../../schemas/json/json-text.ts'

const MAX_VALUES = 100
const MAX_META = 10
const META = 'meta.'

/** A member's value with its place in the request. `now`: on the scale of the times that jobs have, which no step of the wall clock changes. */
interface Given {
  value: unknown
  field: string
  now: number
}

type Part = Partial<JobFilter>

/** The members of a filter, by name; `meta.KEY` beside them. Each reads one member. */
const READERS: Record<string, (given: Given, filter: JobFilter) => Part> = {
  id: (given) => ({ ids: listOf(given) }),
  state: (given) => ({ states: listOf(given).map((text) => stateOf(text, given.field)) }),
  queue: (given) => ({ queues: listOf(given) }),
  type: (given) => ({ types: listOf(given).map((text) => patternOf(text, given.field)) }),
  worker_id: (given) => ({ workerId: textOf(given) }),
  workflow_id: (given) => ({ workflowId: textOf(given) }),
  cron: (given) => ({ cron: textOf(given) }),
  error_code: (given) => ({ errorCode: textOf(given) }),
  error_type: (given, { text }) => ({ text: { ...text, errorType: textOf(given) } }),
  error_pattern: (given, { text }) => ({ text: { ...text, errorPattern: textOf(given) } }),
  priority: (given) => ({ priority: integerOf(given) }),
  held: (given) => ({ isHeld: booleanOf(given) }),
  tag: (given, { text }) => ({ text: { ...text, tags: listOf(given) } }),
  args: (given, { text }) => ({ text: { ...text, args: argsOf(given) } }),
  since: (given, { created }) => ({ created: { ...created, from: instantOf(given) } }),
  until: (given, { created }) => ({ created: { ...created, until: instantOf(given) } }),
  enqueued_since: (given, { enqueued }) => ({ enqueued: { ...enqueued, from: instantOf(given) } }),
  enqueued_until: (given, { enqueued }) => ({ enqueued: { ...enqueued, until: instantOf(given) } }),
  enqueued_after: (given, { enqueued }) => ({ enqueued: { ...enqueued, from: instantOf(given) } }),
  enqueued_before: (given, { enqueued }) => ({
    enqueued: { ...enqueued, until: instantOf(given) },
  }),
  older_than: (given, { ended }) => ({ ended: { ...ended, until: instantOf(given) } }),
  ended_since: (given, { ended }) => ({ ended: { ...ended, from: instantOf(given) } }),
  ended_until: (given, { ended }) => ({ ended: { ...ended, until: instantOf(given) } }),
}

/** The names of all members, which errors about an unknown one list. */
const MEMBERS: readonly string[] = [...Object.keys(READERS), 'meta.KEY']

/**
 * Reads a filter from the members of a query or of a JSON object. A list may be an array, each element
 * as it is, or one text with commas. `now`: for times such as `24h`, which mean so long ago. `path`: precedes names in errors.
 * `renamed`: what some names mean here. Throws 400 for an unknown member, an unknown state, a wrong type and
 * an empty value, and what any job would match: `meta: {}`, `args: []`.
 */
export function parseJobFilter(
  members: Record<string, unknown>,
  now: number,
  path = '',
  renamed: Readonly<Record<string, string>> = {},
): JobFilter {
  let filter: JobFilter = ANY_JOB
  for (const [name, value] of Object.entries(members)) {
    const meant = (Object.hasOwn(renamed, name) && renamed[name]) || name
    filter = { ...filter, ...memberOf(meant, { value, field: path + name, now }, filter) }
  }
  refuseEmpty(filter.created, `${path}since`)
  refuseEmpty(filter.enqueued, `${path}enqueued_since`)
  refuseEmpty(filter.ended, `${path}ended_since`)
  return filter
}

/** The members that name a time. */
const TIMES: ReadonlySet<string> = new Set([
  ...['since', 'until', 'enqueued_since', 'enqueued_until', 'enqueued_after', 'enqueued_before'],
  ...['older_than', 'ended_since', 'ended_until'],
])

/** A filter as it is written: a list is one text with commas, unless a value has one. */
export type WrittenFilter = Readonly<Record<string, string | readonly string[]>>

/**
 * The members of a query that `parseJobFilter` has accepted, as they may be asked for again: for a list, and for
 * an action on many jobs. Times are instants, so that it means the same later.
 */
export function filterDocument(members: Record<string, unknown>, now: number): WrittenFilter {
  return Object.fromEntries(
    Object.entries(members).map(([field, value]) => [field, written({ value, field, now })]),
  )
}

function written(given: Given): string | string[] {
  const { value, field } = given
  if (TIMES.has(field)) return timestamp(instantOf(given))
  if (!Array.isArray(value)) return String(value)
  if (field === 'args') return JSON.stringify(value)
  const texts = value.map(String)
  return texts.every(isPlain) ? texts.join() : texts
}

/** Whether a value may stand among others in one text. */
function isPlain(text: string): boolean {
  return !text.includes(',') && text === text.trim()
}

function memberOf(name: string, given: Given, filter: JobFilter): Part {
  if (name.startsWith(META)) return metaOf([[name.slice(META.length), given.value]], given, filter)
  if (name === 'meta' && isJsonObject(given.value)) {
    return metaOf(Object.entries(given.value), given, filter)
  }
  const read = Object.hasOwn(READERS, name) ? READERS[name] : undefined
  if (read !== undefined) return read(given, filter)
  throw invalidField(given.field, `There is no filter '${echoed(given.field)}'.`, {
    expected: [...MEMBERS],
  })
}

function refuseEmpty({ from, until }: Span, field: string): void {
  if (from === null || until === null || from < until) return
  throw wrong(field, 'must be before the time until which it reaches')
}

function stateOf(text: string, field: string): JobState {
  const state = JOB_STATES.find((known) => known === text)
  if (state !== undefined) return state
  throw invalidField(field, `The '${field}' filter must name states of jobs.`, {
    expected: [...JOB_STATES],
    received: echoed(text),
  })
}

function patternOf(text: string, field: string): TypePattern {
  const isPrefix = text.endsWith('*')
  const beginning = isPrefix ? text.slice(0, -1) : text
  if (!beginning.includes('*')) return { text: beginning, isPrefix }
  throw wrong(field, "must be a type, or the beginning of types with '*' at its end")
}

function metaOf(
  members: readonly (readonly [string, unknown])[],
  { field }: Given,
  { text }: JobFilter,
): Part {
  if (members.length === 0) throw wrong(field, 'must name a condition')
  const added = members.map(([name, value]) => {
    const one = oneOf(value)
    const isScalar = ['string', 'number', 'boolean'].includes(typeof one)
    if (name === '' || !isScalar) throw wrong(field, 'must be a name of meta with one value')
    return { name, value: String(one) }
  })
  const meta = [...text.meta, ...added]
  if (meta.length > MAX_META) throw wrong(field, `must be one of at most ${MAX_META} such filters`)
  return { text: { ...text, meta } }
}

/** In a query, `args` is a JSON text. One object or scalar stands for an array with it. */
function argsOf(given: Given): unknown[] {
  const { value, field } = given
  const read = typeof value === 'string' ? jsonOf(value, field) : value
  const args: unknown[] = Array.isArray(read) ? read : [read]
  if (args.every((arg) => isHollow(arg))) throw wrong(field, 'must name a condition')
  return args
}

/** Throws 400, also for what a body could not have: the filter would mean another value. */
function jsonOf(text: string, field: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw wrong(field, 'must be JSON')
  }
  refuseUnkeepable(Buffer.from(`{"${field}":${text}}`))
  return value
}

/** True for `{}` and `[]`, which any object or list contains. */
function isHollow(arg: unknown): boolean {
  return typeof arg === 'object' && arg !== null && Object.keys(arg).length === 0
}

/** A query may repeat a parameter, and so have a list with one value for what is no list. */
function oneOf(value: unknown): unknown {
  return Array.isArray(value) && value.length === 1 ? value[0] : value
}

/** A duration, or a number of seconds, means that long ago. Throws 400. */
export function instantOf(given: Given): number {
  const { field, now } = given
  const text = textOf(given)
  if (/^\d+$/.test(text)) return now - parseDuration(`${text}s`, field)
  const isDuration = !text.includes('-') && /^[P\d]/.test(text)
  return isDuration ? now - parseDuration(text, field) : parseInstant(text, field, now).ms
}

function integerOf({ value, field }: Given): number {
  const one = oneOf(value)
  const number = typeof one === 'string' && /^-?\d{1,9}$/.test(one) ? Number(one) : one
  if (Number.isInteger(number)) return number as number
  throw wrong(field, 'must be an integer')
}

function booleanOf({ value, field }: Given): boolean {
  const one = oneOf(value)
  if (one === true || one === 'true') return true
  if (one === false || one === 'false') return false
  throw wrong(field, 'must be true or false')
}

function textOf({ value, field }: Given): string {
  const one = oneOf(value)
  if (typeof one === 'string' && one !== '') return one
  throw wrong(field, 'must be one text that is not empty')
}

function listOf({ value, field }: Given): string[] {
  const given: unknown[] = Array.isArray(value) ? value : [value]
  const items = Array.isArray(value) ? given : given.flatMap(separated)
  const texts = items.map((item) => (typeof item === 'string' ? item : ''))
  if (texts.length > MAX_VALUES) throw wrong(field, `must have at most ${MAX_VALUES} values`)
  if (texts.length > 0 && !texts.includes('')) return texts
  throw wrong(field, 'must be texts that are not empty')
}

/** The values of one text. Without a comma it is one value, with the spaces that a tag may have at its ends. */
export function separated(value: unknown): unknown[] {
  if (typeof value !== 'string' || !value.includes(',')) return [value]
  return value.split(',').map((text) => text.trim())
}

function wrong(field: string, what: string): OjsError {
  return invalidField(field, `The '${echoed(field)}' filter ${what}.`)
}
