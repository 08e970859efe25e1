/** A cron entry: its definition, its overlap policy, what a tick makes. */
import { echoed, invalidField, OjsError } from '../../errors.ts'
import { timestamp } from '../document.ts'
import { metaOf, namedTimes } from '../envelope.ts'
import type { NewJob } from '../job.ts'
import { isOptionMember, refuseBeside } from '../members.ts'
import type { CronRequest, PushRequest } from '../request.ts'
import { isRelative } from '../values/instant.ts'
import { checkExpression } from './expression.ts'
import type { Schedule } from './times.ts'
import { checkZone } from './zone.ts'

/**
 * What happens to a tick while a job of an earlier tick has not ended: the tick is skipped, makes its job
 * all the same, cancels the earlier jobs, or waits until they have ended.
 */
type Overlap = 'skip' | 'allow' | 'cancel_previous' | 'enqueue'

/** The names of the overlap policies in OJS's documents (ojs-choices C-47). */
const OVERLAPS: ReadonlyMap<string, Overlap> = new Map([
  ['skip', 'skip'],
  ['allow', 'allow'],
  ['cancel_previous', 'cancel_previous'],
  ['cancel', 'cancel_previous'],
  ['replace', 'cancel_previous'],
  ['enqueue', 'enqueue'],
  ['queue', 'enqueue'],
])

export const OVERLAP_NAMES: readonly string[] = [...OVERLAPS.keys()]

/** A cron entry as a client registered it: checked, with defaults filled in. */
export interface CronDefinition extends Schedule {
  name: string
  overlap: Overlap
  /** False: the entry never fires. */
  isEnabled: boolean
  description: string | null
  /** The body of a PUSH, of which every job of the entry is made. */
  template: PushRequest
}

/** The definition alone, of what may be a whole entry; its members always in the same order. */
export function definitionOf(entry: CronDefinition): CronDefinition {
  const { name, isEnabled, expression, timezone, overlap, description, template } = entry
  return { name, isEnabled, expression, timezone, overlap, description, template }
}

/** A cron entry in the ledger. Instants are wall time, in milliseconds. */
export interface CronEntry extends CronDefinition {
  /** Tells entries apart that had the same name one after the other. */
  seq: number
  /** Null: the entry has no further time, or is not enabled. */
  nextRunAt: number | null
  /** The tick of the last job that the entry made. */
  lastRunAt: number | null
  lastJobId: string | null
  runCount: number
  /** Ticks that wait for the end of an earlier job, oldest first. */
  queued: readonly number[]
  createdAt: number
}

/** The part of an entry that is needed to compute its times. */
export type CronStanding = Pick<CronEntry, 'seq' | 'name' | 'expression' | 'timezone'> & {
  nextRunAt: number
}

/** The template as the request for the job of one tick, with the entry's name and the tick in `meta`. */
export function withTick(
  { name, template }: Pick<CronEntry, 'name' | 'template'>,
  tick: number,
): PushRequest {
  const told = { ...metaOf(template), cron_name: name, cron_triggered_at: timestamp(tick) }
  return { ...template, options: { ...template.options, meta: told } }
}

/**
 * Converts a registration in either spelling (ojs-choices S25). The template stays as the client wrote it:
 * the caller must have it checked as the body of a PUSH, and pass errors through `explainTemplate`. Throws
 * `OjsError` 400.
 */
export function toDefinition(request: CronRequest): Omit<CronDefinition, 'template'> & {
  template: unknown
} {
  const expressionField = request.cron == null ? 'expression' : 'cron'
  const expression = request[expressionField]
  if (expression == null) {
    throw invalidField('cron', "The 'cron' field is required.", { validation: 'required' })
  }
  checkExpression(expression, expressionField)
  const timezone = request.timezone ?? 'UTC'
  checkZone(timezone, 'timezone')
  return {
    name: request.name,
    expression,
    timezone,
    overlap: OVERLAPS.get(request.overlap_policy ?? 'skip') ?? 'skip',
    isEnabled: request.enabled ?? true,
    description: request.description ?? null,
    template: templateOf(request),
  }
}

/**
 * Throws 400 if no job of the entry would have time to run, or all of them would wait for the same instant.
 * `job`: made of the template at `wall`. `firstAt`: the entry's first time.
 */
export function requireTimeToRun(
  template: PushRequest,
  job: Pick<NewJob, 'start' | 'expiresAt'>,
  { wall, firstAt }: { wall: number; firstAt: number },
): void {
  const { start, expiry } = namedTimes(template)
  if (start !== null && !isRelative(start.text)) {
    const text = `The '${start.field}' field must be relative, such as "+PT5M": each job starts at its own time.`
    throw invalidField(start.field, text, { received: echoed(start.text) })
  }
  if (expiry === null || job.expiresAt === null) return
  const dueAt = job.start.state === 'available' ? null : job.start.dueAt
  const isInTime = isRelative(expiry.text)
    ? job.expiresAt > (dueAt ?? wall)
    : job.expiresAt > (dueAt ?? wall) + firstAt - wall
  if (isInTime) return
  const text = `The '${expiry.field}' field is over before any job of the entry can run. A relative time such as "+PT1H" counts from each job.`
  throw invalidField(expiry.field, text, { received: echoed(expiry.text) })
}

const TEMPLATE_MEMBERS = new Set(['type', 'args', 'schema', 'specversion', 'options'])

/** `args` is required by seed 001 §13.2 and optional elsewhere (ojs-choices C-46). */
function templateOf(request: CronRequest): object {
  refuseBeside(request.job_template == null ? 'cron' : 'template', request)
  const given = request.job_template ?? ownTemplate(request)
  if (given['id'] != null) {
    const field = templateField(request, 'id')
    throw invalidField(field, `The '${field}' field must be absent: each job gets its own id.`)
  }
  return given['args'] == null ? { ...given, args: [] } : given
}

/** The template's members at the top level of a request that has no `job_template`. */
function ownTemplate(request: CronRequest): Record<string, unknown> {
  const members = Object.entries(request).filter(
    ([name]) => name === 'id' || TEMPLATE_MEMBERS.has(name) || isOptionMember(name),
  )
  return Object.fromEntries(members)
}

function templateField(request: CronRequest, field: string): string {
  return request.job_template == null ? field : `job_template.${field}`
}

/** An error about the template, with its field named as in the registration request. */
export function explainTemplate(request: CronRequest, error: unknown): unknown {
  const field = error instanceof OjsError ? error.details?.['field'] : undefined
  if (!(error instanceof OjsError) || typeof field !== 'string') return error
  return error.withDetails({ field: templateField(request, field) })
}
