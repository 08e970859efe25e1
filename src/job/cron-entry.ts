import { invalidField, OjsError } from '../errors.ts'
import { checkExpression } from './cron-expression.ts'
import type { Schedule } from './cron-times.ts'
import { checkZone } from './cron-zone.ts'
import { timestamp } from './document.ts'
import { isOptionMember, metaOf } from './envelope.ts'
import type { CronRequest, PushRequest } from './request.ts'

/**
 * What happens to a tick while a job of an earlier one is not over: it is left out, it makes a job
 * all the same, it ends the earlier ones, or it waits until they are over.
 */
type Overlap = 'skip' | 'allow' | 'cancel_previous' | 'enqueue'

/** The names that OJS's own texts have for them (ojs-digest C-47). */
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

/** A cron entry as a client asked for it: checked, and with its defaults. */
export interface CronDefinition extends Schedule {
  name: string
  overlap: Overlap
  /** False: it has no times. */
  isEnabled: boolean
  description: string | null
  /** The body of a PUSH: what every job of it is made from. */
  template: PushRequest
}

/** A cron entry in the ledger. Instants are of the wall clock, in milliseconds. */
export interface CronEntry extends CronDefinition {
  /** Which of the entries that ever had this name. */
  seq: number
  /** Null: it never comes again, or is not enabled. */
  nextRunAt: number | null
  /** The tick of the last job. */
  lastRunAt: number | null
  lastJobId: string | null
  runCount: number
  /** Ticks that wait for an earlier job to be over, oldest first. */
  queued: readonly number[]
  createdAt: number
}

/** Where an entry stands: what its times need, and nothing of its jobs. */
export type CronStanding = Pick<CronEntry, 'seq' | 'name' | 'expression' | 'timezone'> & {
  nextRunAt: number
}

/** What a POST says about one tick of an entry, in `meta` of its job. */
export function withTick(
  { name, template }: Pick<CronEntry, 'name' | 'template'>,
  tick: number,
): PushRequest {
  const told = { ...metaOf(template), cron_name: name, cron_triggered_at: timestamp(tick) }
  return { ...template, options: { ...template.options, meta: told } }
}

/**
 * Both spellings of a registration as one (conformance.md S25). The template is as the client wrote
 * it: whoever calls this has it checked as the body of a PUSH, where `templateField` says what a
 * field of it is called in this request. Throws `OjsError` 400.
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

const TEMPLATE_MEMBERS = new Set(['type', 'args', 'schema', 'specversion', 'options'])

/** `args` is required by seed 001 §13.2 and optional elsewhere (ojs-digest C-46). */
function templateOf(request: CronRequest): object {
  const given = request.job_template ?? ownTemplate(request)
  if (given['id'] != null) {
    throw invalidField(
      templateField(request, 'id'),
      'The jobs of a cron entry get ids of their own.',
    )
  }
  return given['args'] == null ? { ...given, args: [] } : given
}

/** What stands at the top level beside what is about the entry itself. */
function ownTemplate(request: CronRequest): Record<string, unknown> {
  const members = Object.entries(request).filter(
    ([name]) => name === 'id' || TEMPLATE_MEMBERS.has(name) || isOptionMember(name),
  )
  return Object.fromEntries(members)
}

function templateField(request: CronRequest, field: string): string {
  return request.job_template == null ? field : `job_template.${field}`
}

/** An error about the template, told in the words of the request that it came with. */
export function explainTemplate(request: CronRequest, error: unknown): unknown {
  const field = error instanceof OjsError ? error.details?.['field'] : undefined
  if (!(error instanceof OjsError) || typeof field !== 'string') return error
  return error.withDetails({ field: templateField(request, field) })
}
