/** Which jobs are meant: a filter as a value, and how a job is compared with it. */
import { isHeldByKey } from '../concurrency.ts'
import type { JobRow, JobState, RowState } from '../job.ts'
import { jsonOrNull, membersOf } from '../values/json-value.ts'
import { contains, needleOf } from './contains.ts'
import { errorKindOf } from './error-pattern.ts'

/** From `from`, which is included, until `until`, which is not; null: open. */
export interface Span {
  from: number | null
  until: number | null
}

/** An exact type, or with `isPrefix` every type that begins with `text`. */
export interface TypePattern {
  text: string
  isPrefix: boolean
}

/** A condition on the texts of a job's row, which are compared one by one. */
export interface TextFilter {
  /** The type of the job's last error, or its code if it has no type; null: any. */
  errorType: string | null
  /** The pattern of the message of its last error (`error-pattern.ts`); null: any. */
  errorPattern: string | null
  /** The job has all of these. */
  tags: readonly string[]
  /** The `meta` of the job has a string, number or boolean of this name, which is written so. */
  meta: readonly { name: string; value: string }[]
  /** The job's `args` contain it (`contains.ts`); undefined: any. */
  args: unknown
}

/** Which jobs are meant. Every condition holds; an empty list and null are no condition. */
export interface JobFilter {
  /** Primary keys. */
  ids: readonly string[]
  states: readonly JobState[]
  queues: readonly string[]
  types: readonly TypePattern[]
  /** The worker that runs the job or ran it last. */
  workerId: string | null
  workflowId: string | null
  /** The name of the cron entry that made the job. */
  cron: string | null
  priority: number | null
  /** Only dead letters. */
  isDeadLetter: boolean
  /** Whether its concurrency key holds the job back; null: either. Absent in operations of earlier builds. */
  isHeld?: boolean | null
  /** The code of the job's last error. */
  errorCode: string | null
  created: Span
  enqueued: Span
  ended: Span
  text: TextFilter
}

export const ALWAYS: Span = { from: null, until: null }

/** The filter that every job passes. */
export const ANY_JOB: JobFilter = {
  ids: [],
  states: [],
  queues: [],
  types: [],
  workerId: null,
  workflowId: null,
  cron: null,
  priority: null,
  isDeadLetter: false,
  isHeld: null,
  errorCode: null,
  created: ALWAYS,
  enqueued: ALWAYS,
  ended: ALWAYS,
  text: { errorType: null, errorPattern: null, tags: [], meta: [], args: undefined },
}

/** The short columns of a job that a filter looks at. */
export interface SearchedJob {
  id: string
  state: RowState
  queue: string
  type: string
  workerId: string | null
  priority: number
  isDeadLetter: boolean | number
  holder: string | null
  createdAt: number
  enqueuedAt: number
  /** When it was completed, cancelled or discarded. */
  endedAt: number | null
}

export function isOpen({ from, until }: Span): boolean {
  return from === null && until === null
}

function isIn({ from, until }: Span, at: number | null): boolean {
  if (from === null && until === null) return true
  return at !== null && (from === null || at >= from) && (until === null || at < until)
}

function isOfType(types: readonly TypePattern[], type: string): boolean {
  if (types.length === 0) return true
  return types.some(({ text, isPrefix }) => (isPrefix ? type.startsWith(text) : type === text))
}

/** Whether the short columns of the job meet the filter. */
export function meets(filter: JobFilter, job: SearchedJob): boolean {
  const { ids, states, queues, types, workerId, priority, isDeadLetter, isHeld } = filter
  return (
    isAmong(states, job.state) &&
    isAmong(queues, job.queue) &&
    isOfType(types, job.type) &&
    isAmong(ids, job.id) &&
    (workerId === null || workerId === job.workerId) &&
    (priority === null || priority === job.priority) &&
    (!isDeadLetter || Boolean(job.isDeadLetter)) &&
    (isHeld == null || isHeld === isHeldByKey(job)) &&
    isIn(filter.created, job.createdAt) &&
    isIn(filter.enqueued, job.enqueuedAt) &&
    isIn(filter.ended, job.endedAt)
  )
}

function isAmong(list: readonly string[], value: string): boolean {
  return list.length === 0 || list.includes(value)
}

/** Whether the job has every tag. */
export function hasTags({ tags }: TextFilter, carry: string | null): boolean {
  if (tags.length === 0) return true
  const own = carry === null ? undefined : membersOf(jsonOrNull(carry))['tags']
  return Array.isArray(own) && tags.every((tag) => own.includes(tag))
}

/** Whether the envelope has the wanted `meta` and `args`. */
export function hasTexts({ meta, args }: TextFilter, envelope: string): boolean {
  const job = membersOf(jsonOrNull(envelope))
  const own = membersOf(job['meta'])
  const hasMeta = meta.every(({ name, value }) => {
    const member = Object.hasOwn(own, name) ? own[name] : undefined
    return member !== null && typeof member !== 'object' && member !== undefined
      ? String(member) === value
      : false
  })
  return hasMeta && (args === undefined || contains(job['args'], args))
}

/** Null: the envelope need not be read. Else a text that it must contain unless it has a backslash. */
export function envelopeNeedle({ meta, args }: TextFilter): string | null {
  if (meta.length === 0 && args === undefined) return null
  const own = needleOf(args)
  // The value of a meta member may stand there without quotes: a number, for one.
  const values = meta.map(({ value }) => JSON.stringify(value).slice(1, -1))
  return [own, ...values.filter((value) => !value.includes('\\'))].reduce(longerOf)
}

/** A text that the job's `carry` must contain unless it has a backslash; null: it need not be read. */
export function carryNeedle({ tags }: TextFilter): string | null {
  return tags.length === 0 ? null : needleOf(tags)
}

/** The same for its `error`; a pattern is none that it contains, but there must be one. */
export function errorNeedle({ errorType, errorPattern }: TextFilter): string | null {
  if (errorType !== null) return needleOf(errorType)
  return errorPattern === null ? null : ''
}

function longerOf(one: string, other: string): string {
  return other.length > one.length ? other : one
}

/** Whether the job's last error is of the wanted type, and its message of the wanted pattern. */
export function hasError({ errorType, errorPattern }: TextFilter, error: JobRow['error']): boolean {
  if (errorType !== null && errorTypeOf(error) !== errorType) return false
  return errorPattern === null || errorKindOf(error).pattern === errorPattern
}

/** The type of an error, or its code if it has none. */
export function errorTypeOf(error: JobRow['error']): string | null {
  const { type, code } = errorMembers(error)
  const name = typeof type === 'string' ? type : code
  return typeof name === 'string' ? name : null
}

export function errorCodeOf(error: JobRow['error']): string | null {
  const { code } = errorMembers(error)
  return typeof code === 'string' ? code : null
}

function errorMembers(error: JobRow['error']): { type?: unknown; code?: unknown } {
  return membersOf(error === null ? null : jsonOrNull(error))
}
