/** PATCH, pause, resume and manual runs of cron entries. */
import { setTimeout as wait } from 'node:timers/promises'
import { notFound, OjsError, unavailable } from '../../errors.ts'
import { changedRegistration, isSwitch, readChange } from '../../job/cron/change.ts'
import type { CronDefinition, CronEntry } from '../../job/cron/entry.ts'
import { cronWarnings } from '../../job/cron/warnings.ts'
import { metaOf } from '../../job/envelope.ts'
import type { JobRow } from '../../job/job.ts'
import type { CronRun } from '../../ledger/cron.ts'
import type { KeyedRequest } from '../../ledger/idempotency.ts'
import { parseTrigger } from '../../schemas/requests/validator.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { checkArgs } from '../enqueue/check-args.ts'
import { once, rememberedJobs } from '../enqueue/idempotency.ts'
import { requireQueue } from '../enqueue/push.ts'
import { requireNoMaintenance } from '../maintenance.ts'
import {
  afterDue,
  findCron,
  firstTick,
  parseDefinition,
  type RegisteredCron,
  requireUsableQueue,
} from './cron.ts'
import { cronFacts, newCronJob, tellGap } from './cron-job.ts'
import { noteStop } from './stopped.ts'
import { makingNow, tellRun } from './ticks.ts'

/** How often a change is tried while others change the same entry, or its job may still be withdrawn. */
const ROUNDS = 10
const PAUSE_MS = 50

/**
 * Changes members of an entry (OJS cron §9): its counts, jobs and the times that wait stay, and its next time
 * if the schedule does. A time that has come makes its job first, by the old definition. Throws 400, 404, 503.
 */
export async function changeCron(
  deps: Deps,
  name: string,
  body: Record<string, unknown>,
  context: RequestContext,
): Promise<RegisteredCron> {
  const change = readChange(body)
  for (let round = 0; round < ROUNDS; round++) {
    const before = await findCron(deps, name)
    // An entry that a stricter gateway would refuse now can be paused all the same.
    const definition = isSwitch(change)
      ? { ...before, isEnabled: change.own['enabled'] === true }
      : await parseDefinition(deps, changedRegistration(before, change), context)
    const { queue } = cronFacts(definition)
    if (queue !== cronFacts(before).queue) await requireUsableQueue(deps, queue)
    const entry = await replaced(deps, definition, before)
    if (entry === null) continue
    if (!isSwitch(change)) noteStop(deps, entry, null)
    const { requestId, principal } = context
    const members = Object.keys(body).slice(0, 20)
    deps.logger.info({ cron: name, members, requestId, principal }, 'cron job changed')
    return { entry, isReplaced: true, warnings: cronWarnings(entry, deps.clock.wall()) }
  }
  throw unavailable('Others change the same cron job all the time.', 'cron_job_changing')
}

/** Null: the entry has changed, or is gone: look again. */
async function replaced(
  deps: Deps,
  definition: CronDefinition,
  before: CronEntry,
): Promise<CronEntry | null> {
  const stored = await afterDue(deps, async (wall) => {
    const first = firstTick(definition, wall)
    const terms = { nextRunAt: first?.at ?? null, createdAt: wall, limit: 0, isReplacing: true }
    const done = await deps.ledger.cron.register(definition, {
      ...terms,
      basis: before,
      isKeepingQueued: true,
    })
    if (done.outcome === 'replaced' && done.entry.nextRunAt === first?.at) {
      tellGap(deps, cronFacts(definition), first)
    }
    return done
  })
  return stored.outcome === 'replaced' ? stored.entry : null
}

export interface Triggered {
  entry: CronEntry
  job: JobRow
  /** True: this is the answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
}

/**
 * Makes a job of an entry now, whatever its overlap policy says and even if it is disabled; its next time
 * stays. `body`: other `args`, further `meta`. Answers from its commit, as times do. Throws 400; 404; 409 when
 * the job's `unique` policy refuses it; 422 for a paused queue; 503.
 */
export function triggerCron(
  deps: Deps,
  name: string,
  body: Record<string, unknown>,
  context: RequestContext,
): Promise<Triggered> {
  return once(
    deps,
    { endpoint: 'cron/trigger', body: { name, body }, context },
    ({ request }) => triggerNew(deps, name, body, context, request),
    async (remembered, request) => {
      const [job] = await rememberedJobs(deps, remembered, request, { context, jobs: [] })
      if (job === undefined) throw new Error('the remembered run has no job')
      return { entry: await findCron(deps, name), job, isReplay: true }
    },
  )
}

async function triggerNew(
  deps: Deps,
  name: string,
  body: Record<string, unknown>,
  context: RequestContext,
  request: KeyedRequest | undefined,
): Promise<Triggered> {
  const { args, meta } = parseTrigger(body)
  const entry = await findCron(deps, name)
  const { template } = entry
  const told = { ...metaOf(template), ...meta, cron_manual: true }
  const own = {
    ...template,
    args: args ?? template.args,
    options: { ...template.options, meta: told },
  }
  await checkArgs(deps, own)
  requireNoMaintenance(deps)
  await requireQueue(deps, cronFacts(entry).queue)
  for (let round = 0; round < ROUNDS; round++) {
    const at = deps.clock.wall()
    const job = newCronJob(deps, { name, template: own }, at, context)
    const keyed = { request, now: deps.clock.now() }
    const made = await deps.ledger.cron.trigger(name, at, { job, ...makingNow(deps) }, keyed)
    switch (made.outcome) {
      case 'fired': {
        tellRun(deps, entry, { ...made, scheduledAt: at, isManual: true }, context)
        const { requestId, principal } = context
        deps.logger.info({ cron: name, jobId: made.job.id, requestId, principal }, 'cron job run')
        return { entry: await findCron(deps, name), job: made.job }
      }
      case 'missing':
        throw notFound('cron_job', name)
      case 'unneeded':
        throw new OjsError('duplicate', 'A job with the same unique key exists already.', {
          details: { existing_job_id: made.existingId },
        })
      case 'remembered': {
        const asked = { context, jobs: [] }
        const [first] = request ? await rememberedJobs(deps, made.remembered, request, asked) : []
        if (first !== undefined) return { entry, job: first, isReplay: true }
        break
      }
      case 'unsettled':
        await wait(PAUSE_MS)
    }
  }
  throw unavailable('The job of the cron job cannot be made yet.', 'cron_job_due')
}

/** The newest runs of an entry, newest first. Throws 404. */
export async function cronRuns(
  deps: Pick<Deps, 'ledger'>,
  name: string,
  page: { limit: number; offset: number },
): Promise<{ runs: CronRun[]; total: number }> {
  await findCron(deps, name)
  return await deps.ledger.read.cron.runs(name, page)
}
