/** Registers, replaces, lists and removes recurring jobs. */
import { setTimeout as wait } from 'node:timers/promises'
import { queueRefusal } from '../../broker/broker-errors.ts'
import { invalidField, notFound, OjsError, unavailable } from '../../errors.ts'
import {
  type CronDefinition,
  type CronEntry,
  explainTemplate,
  requireTimeToRun,
  toDefinition,
} from '../../job/cron/entry.ts'
import { nextTick, type Schedule, type Tick } from '../../job/cron/times.ts'
import { type CronWarning, cronWarnings } from '../../job/cron/warnings.ts'
import { traceIdIn } from '../../job/trace/carry.ts'
import type { StillDue } from '../../ledger/cron.ts'
import type { KeyedRequest, Remembered } from '../../ledger/idempotency.ts'
import { parseCron, parsePush } from '../../schemas/requests/validator.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { checkArgs } from '../enqueue/check-args.ts'
import { once, rememberedResource } from '../enqueue/idempotency.ts'
import { cronFacts, newCronJob, tellDropped, tellGap } from './cron-job.ts'
import { noteStop } from './stopped.ts'
import { fireOne } from './ticks.ts'

/** Clients create cron jobs, and every pass of the timer looks at each of them. */
const MAX_CRON_JOBS = 10_000

/** How often, and how many ms apart, the due time of an entry is tried that is replaced or removed. */
const DUE_ROUNDS = 10
const DUE_PAUSE_MS = 50

export interface RegisterOptions {
  /** Takes the place of an entry that has this name. */
  isReplacing?: boolean
}

export interface RegisteredCron {
  entry: CronEntry
  /** True: there was an entry of this name before. */
  isReplaced: boolean
  /** True: this is the answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
  warnings: CronWarning[]
}

/**
 * Registers a recurring job (seed 001 §13.2). Checks its job template by the same code as a PUSH, so that
 * jobs that would be refused at each tick are refused now. Throws 400, also when the args do not match their
 * schema or every job would be over before it can run; 404 and 422 for the queue, 409 when the name is taken,
 * 422 when there are too many, 503.
 */
export function registerCron(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  { isReplacing = false }: RegisterOptions = {},
): Promise<RegisteredCron> {
  return once(
    deps,
    { endpoint: isReplacing ? 'cron?replace' : 'cron', body, context },
    ({ request }) => registerNew(deps, body, context, { isReplacing, request }),
    (remembered, request) => replayed(deps, remembered, request),
  )
}

async function registerNew(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  { isReplacing, request }: { isReplacing: boolean; request: KeyedRequest | undefined },
): Promise<RegisteredCron> {
  const definition = await parseDefinition(deps, body, context)
  const { name, expression, timezone } = definition
  await requireUsableQueue(deps, cronFacts(definition).queue)
  const registered = await afterDue(deps, async (wall) => {
    const first = firstTick(definition, wall)
    const keyed = { request, now: deps.clock.now() }
    const terms = { createdAt: wall, limit: MAX_CRON_JOBS, isReplacing, keyed }
    const stored = await deps.ledger.cron.register(definition, {
      ...terms,
      nextRunAt: first?.at ?? null,
    })
    if (stored.outcome === 'registered') tellGap(deps, cronFacts(definition), first)
    if (stored.outcome === 'replaced' && !stored.entry.isEnabled) tellDropped(deps, stored.before)
    return stored
  })
  if (registered.outcome === 'remembered')
    return await replayed(deps, registered.remembered, request)
  if (registered.outcome === 'changed') throw new Error('a new entry has no basis')
  if (!('entry' in registered)) throw refusal(name, registered.outcome)
  const { entry, outcome } = registered
  noteStop(deps, entry, null)
  const asked = { requestId: context.requestId, traceId: traceIdIn(context) }
  deps.logger.info({ cron: name, expression, timezone, ...asked }, `cron job ${outcome}`)
  const isReplaced = outcome === 'replaced'
  return { entry, isReplaced, warnings: cronWarnings(definition, deps.clock.wall()) }
}

async function replayed(
  { ledger, clock }: Pick<Deps, 'ledger' | 'clock'>,
  remembered: Remembered,
  request: KeyedRequest | undefined,
): Promise<RegisteredCron> {
  // The name may be that of a later entry by now.
  const find = async (name: string, [seq]: readonly string[]) => {
    const present = await ledger.read.cron.find(name)
    return String(present?.seq) === seq ? present : null
  }
  const entry = await rememberedResource('cron_job', remembered, request, find)
  const isReplaced = remembered.existing.length > 0
  return { entry, isReplaced, isReplay: true, warnings: cronWarnings(entry, clock.wall()) }
}

/**
 * The first tick of an enabled definition. Throws 400 when it has none: some schedules only ever name times
 * that the clocks leap over, such as the second Sunday of March at 2:30.
 */
export function firstTick(
  definition: Pick<CronDefinition, 'isEnabled' | keyof Schedule>,
  wall: number,
): Tick | null {
  if (!definition.isEnabled) return null
  const first = nextTick(definition, wall)
  if (first !== null) return first
  throw invalidField('cron', "The 'cron' field matches no time that exists in its time zone.", {
    received: definition.expression,
  })
}

export async function parseDefinition(
  deps: Deps,
  body: unknown,
  context: RequestContext,
): Promise<CronDefinition> {
  const request = parseCron(body)
  const given = toDefinition(request)
  const wall = deps.clock.wall()
  const first = firstTick(given, wall)
  try {
    const template = parsePush(given.template)
    await checkArgs(deps, template)
    const definition = { ...given, template }
    const job = newCronJob(deps, definition, wall, context)
    requireTimeToRun(template, job, { wall, firstAt: first?.at ?? wall })
    return definition
  } catch (error) {
    throw explainTemplate(request, error)
  }
}

/**
 * Tries a change of an entry that must not lose a time that has come: first fires what the entry is due.
 * Throws 503 when that is not possible yet.
 */
export async function afterDue<T extends { outcome: string }>(
  deps: Deps,
  change: (wall: number) => Promise<T | StillDue>,
): Promise<T> {
  for (let round = 0; round < DUE_ROUNDS; round++) {
    const changed = await change(deps.clock.wall())
    if (!isStillDue(changed)) return changed
    if (!(await fireOne(deps, changed.entry))) await wait(DUE_PAUSE_MS)
  }
  throw unavailable(
    'A time of the cron job has come, but its job cannot be made yet.',
    'cron_job_due',
  )
}

function isStillDue<T extends { outcome: string }>(changed: T | StillDue): changed is StillDue {
  return changed.outcome === 'due'
}

/**
 * Refuses a queue that cannot be used now, because at a tick there is no client to tell. Checks nothing
 * while RabbitMQ is away: a registration needs only the ledger.
 */
export async function requireUsableQueue(deps: Deps, queue: string): Promise<void> {
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
): Promise<{ entries: CronEntry[]; total: number }> {
  return deps.ledger.read.cron.list(page)
}

/** Returns one cron entry; not part of the seeds. Throws 404. */
export async function findCron(deps: Pick<Deps, 'ledger'>, name: string): Promise<CronEntry> {
  const entry = await deps.ledger.read.cron.find(name)
  if (entry === null) throw notFound('cron_job', name)
  return entry
}

/**
 * Removes an entry and its queued ticks, which are told; jobs that it made stay (seed 001 §13.3). If its time has
 * come, makes its job first. Throws 404, 503.
 */
export async function removeCron(
  deps: Deps,
  name: string,
  { requestId }: RequestContext,
): Promise<void> {
  const removed = await afterDue(deps, (wall) => deps.ledger.cron.remove(name, wall))
  if (removed.outcome === 'missing') throw notFound('cron_job', name)
  tellDropped(deps, removed.entry)
  deps.logger.info({ cron: name, requestId }, 'cron job removed')
}
