import { queueRefusal } from '../broker/refusals.ts'
import { invalidField, notFound, OjsError } from '../errors.ts'
import {
  type CronDefinition,
  type CronEntry,
  explainTemplate,
  toDefinition,
  withTick,
} from '../job/cron-entry.ts'
import { nextTick, type Schedule, type Tick } from '../job/cron-times.ts'
import type { NewJob } from '../job/job.ts'
import { traceIdIn } from '../job/trace-carry.ts'
import { parseCron, parsePush } from '../schemas/validator.ts'
import type { CronFacts } from '../telemetry/events.ts'
import type { Deps, RequestContext } from './deps.ts'
import { checkArgs } from './enqueue/check-args.ts'
import { newJob } from './push.ts'

/** Clients create cron jobs, and every pass of the timer looks at each of them. */
const MAX_CRON_JOBS = 10_000

/**
 * Registers a recurring job (seed 001 §13.2). Checks its job template by the same code as a PUSH, so that
 * jobs that would be refused at each tick are refused now. Throws 400, also when the args do not match their
 * schema; 404 and 422 for the queue, 409 when the name is taken, 422 when there are too many, 503.
 */
export async function registerCron(
  deps: Deps,
  body: unknown,
  context: RequestContext,
): Promise<CronEntry> {
  const wall = deps.clock.wall()
  const definition = parseDefinition(deps, body, context)
  const first = firstTick(definition, wall)
  await requireUsableQueue(deps, cronFacts(definition).queue)
  const registered = await deps.ledger.cron.register(definition, {
    nextRunAt: first?.at ?? null,
    createdAt: wall,
    limit: MAX_CRON_JOBS,
  })
  if (registered.outcome !== 'registered') throw refusal(definition.name, registered.outcome)
  tellGap(deps, cronFacts(definition), first)
  const { name, expression, timezone } = definition
  const asked = { requestId: context.requestId, traceId: traceIdIn(context) }
  deps.logger.info({ cron: name, expression, timezone, ...asked }, 'cron job registered')
  return registered.entry
}

/**
 * The first tick of an enabled definition. Throws 400 when it has none: some schedules only ever name times
 * that the clocks leap over, such as the second Sunday of March at 2:30.
 */
function firstTick(definition: CronDefinition, wall: number): Tick | null {
  if (!definition.isEnabled) return null
  const first = nextTick(definition, wall)
  if (first !== null) return first
  throw invalidField('cron', "The 'cron' field matches no time that exists in its time zone.", {
    received: definition.expression,
  })
}

function parseDefinition(deps: Deps, body: unknown, context: RequestContext): CronDefinition {
  const request = parseCron(body)
  const definition = toDefinition(request)
  try {
    const template = parsePush(definition.template)
    checkArgs(deps, template)
    newCronJob(deps, { ...definition, template }, deps.clock.wall(), context)
    return { ...definition, template }
  } catch (error) {
    throw explainTemplate(request, error)
  }
}

/** Makes the job of one tick, without storing it. Throws `OjsError`. */
export function newCronJob(
  deps: Deps,
  entry: Pick<CronEntry, 'name' | 'template'>,
  tick: number,
  context: RequestContext,
): NewJob {
  return newJob(deps, withTick(entry, tick), context)
}

/**
 * Refuses a queue that cannot be used now, because at a tick there is no client to tell. Checks nothing
 * while RabbitMQ is away: a registration needs only the ledger.
 */
async function requireUsableQueue(deps: Deps, queue: string): Promise<void> {
  if (deps.broker.status().state !== 'up' || deps.broker.isDeclared(queue)) return
  const outcome = await deps.broker.ensureQueue(queue)
  const isUsable = outcome !== 'missing' && outcome !== 'too-many-queues' && outcome !== 'lossy'
  if (!isUsable) throw queueRefusal(queue, outcome)
}

function refusal(name: string, outcome: 'duplicate' | 'full'): OjsError {
  if (outcome === 'duplicate') {
    return new OjsError('duplicate', `A cron job named '${name}' already exists.`, {
      details: { resource_type: 'cron_job', resource_id: name, field: 'name' },
    })
  }
  return new OjsError(
    'unsupported',
    `This server keeps at most ${MAX_CRON_JOBS} cron jobs; delete some first.`,
    {
      details: { reason: 'too_many_cron_jobs', limit: MAX_CRON_JOBS },
    },
  )
}

/** Lists the cron entries (seed 001 §13.1). A pure read. */
export function listCron(
  deps: Pick<Deps, 'ledger'>,
  page: { limit: number; offset: number },
): { entries: CronEntry[]; total: number } {
  return deps.ledger.cron.list(page)
}

/** Returns one cron entry; not part of the seeds. Throws 404. */
export function findCron(deps: Pick<Deps, 'ledger'>, name: string): CronEntry {
  const entry = deps.ledger.cron.find(name)
  if (entry === null) throw notFound('cron_job', name)
  return entry
}

/** Removes an entry and its queued ticks; jobs that it made stay (seed 001 §13.3). Throws 404, 503. */
export async function removeCron(
  deps: Pick<Deps, 'ledger' | 'logger'>,
  name: string,
  { requestId }: RequestContext,
): Promise<void> {
  if (!(await deps.ledger.cron.remove(name))) throw notFound('cron_job', name)
  deps.logger.info({ cron: name, requestId }, 'cron job removed')
}

/** The part of an entry that events carry. */
export function cronFacts({ name, expression, template }: CronDefinition): CronFacts {
  const queue = template.options?.queue ?? template.queue ?? 'default'
  return { name, expression, jobType: template.type, queue }
}

/** Returns null also when this machine no longer knows the time zone: one entry must not stop the others. */
export function nextOf(
  deps: Pick<Deps, 'logger'>,
  { name, ...schedule }: Schedule & { name: string },
  instant: number,
): Tick | null {
  try {
    return nextTick(schedule, instant)
  } catch (error) {
    deps.logger.error({ err: error, cron: name }, 'cron job: the next time cannot be calculated')
    return null
  }
}

/** Emits `cron.skipped` for a time that the clocks leap over before `next`; no tick of its own would. */
export function tellGap(deps: Pick<Deps, 'events'>, cron: CronFacts, next: Tick | null): void {
  if (next === null || next.gapAt === null) return
  deps.events.emit({ type: 'cron.skipped', cron, scheduledAt: next.gapAt, reason: 'dst_skip' })
}
