/** Fires due cron entries by their overlap policy, and moves each to its next time. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { OjsError } from '../../errors.ts'
import type { CronEntry, CronStanding } from '../../job/cron/entry.ts'
import type { Tick } from '../../job/cron/times.ts'
import type { NewJob } from '../../job/job.ts'
import type { CronTick, DueEntry, Fired, Making, TickChange } from '../../ledger/cron.ts'
import type { CronEvent } from '../../telemetry/events.ts'
import { storedEvent } from '../../telemetry/events.ts'
import { cancelJob } from '../cancel.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { checkArgs } from '../enqueue/check-args.ts'
import type { CronStop } from '../in-flight.ts'
import { followCancel } from '../job-end.ts'
import { isInMaintenance } from '../maintenance.ts'
import { drainOf } from '../queues/drain.ts'
import { isPaused } from '../queues/pause.ts'
import { cronFacts, newCronJob, nextOf, tellGap } from './cron-job.ts'
import { type Missed, missedSince, tellMissed } from './missed.ts'
import { noteStop } from './stopped.ts'

const PAGE = 50
/** Due entries that are worked on together: their writes share a commit. With 500, others wait longer. */
const DUE_PAGE = 250
/** Of these, how many times and jobs are calculated before other work has its turn. */
const SLICE = 50
/** Ticks of one entry that may wait for its running job; later ones are skipped. */
const MAX_QUEUED = 100
/** A job may come back to life between the cancel and the next attempt to fire, but not for ever. */
const MAX_CANCEL_ROUNDS = 10

/**
 * As in Vixie's cron: when the clock was set back by less than this, the entry stays as it is, since the
 * jobs of the times that come again exist already.
 */
const FAR_AHEAD_MS = 3 * 3_600_000

type SkipReason = Exclude<(CronEvent & { type: 'cron.skipped' })['reason'], 'missed' | 'dropped'>

/**
 * Fires the due tick of each due entry, the most overdue first, and moves the entry to its next time after
 * now. So after a downtime each entry catches up with one job (OJS cron). Adds to `untold` which
 * entries have missed times, so that no entry waits until the times of the others are counted. Returns how
 * many ticks are done. Unless there were none, there may be more: the ledger may return less than a page, to
 * bound the memory. `areReportsOut`: jobs may have ended that seem to run, so no tick is skipped for them yet.
 */
export async function fireDue(
  deps: Deps,
  untold: Missed[],
  areReportsOut = false,
): Promise<number> {
  const wall = deps.clock.wall()
  const plans: Plan[] = []
  for (const entry of await deps.ledger.read.cron.due(wall, DUE_PAGE)) {
    const isChecked = entry.template.schema != null
    // The check may take long.
    if (isChecked || plans.length % SLICE === SLICE - 1) await nextTurn()
    plans.push(planOf(deps, entry, wall, isChecked ? await refusalOf(deps, entry) : null))
  }
  // In parallel, so that the writes share a commit.
  const passes = await Promise.all(plans.map((plan) => fireEntry(deps, plan, areReportsOut)))
  for (const { missed } of passes) if (missed !== undefined) untold.push(missed)
  return passes.filter(({ isDone }) => isDone).length
}

/** Fires the due tick of one entry now. False: it has to be tried again. */
export async function fireOne(deps: Deps, entry: DueEntry): Promise<boolean> {
  const refusal = await refusalOf(deps, entry)
  const { isDone, missed } = await fireEntry(deps, planOf(deps, entry, deps.clock.wall(), refusal))
  if (missed !== undefined) await tellMissed(deps, [missed])
  return isDone
}

/**
 * Resets entries after the wall clock was set back, perhaps while no gateway ran. If the clock had been
 * hours ahead, entries have fired for times that are still to come, and would not fire again until then:
 * this moves them to the first time after now.
 */
export async function returnFromAhead(deps: Deps): Promise<void> {
  const wall = deps.clock.wall()
  let after: number | undefined = 0
  while (after !== undefined) {
    const entries = await deps.ledger.read.cron.ahead(wall + FAR_AHEAD_MS, after, PAGE)
    await Promise.all(entries.map((entry) => returnEntry(deps, entry, wall)))
    after = entries.length < PAGE ? undefined : entries.at(-1)?.seq
    // At each start of the gateway this calculates a time for every entry that is not due within hours.
    await nextTurn()
  }
}

async function returnEntry(deps: Deps, entry: CronStanding, wall: number): Promise<void> {
  const { name, seq, nextRunAt } = entry
  const first = nextOf(deps, entry, wall + FAR_AHEAD_MS)
  if (first === null || first.at >= nextRunAt) return
  const next = nextOf(deps, entry, wall) ?? first
  await deps.ledger.cron.reset({ name, seq, at: nextRunAt }, next.at)
  deps.logger.warn({ cron: name }, 'cron job continues from now: the clock was set back')
}

/** Makes the jobs of queued ticks whose earlier job has ended (overlap policy `enqueue`). */
export async function releaseQueued(deps: Deps): Promise<void> {
  let after: string | undefined = ''
  while (after !== undefined) {
    const entries = await deps.ledger.read.cron.releasable(after, PAGE)
    await Promise.all(entries.map((entry) => releaseEntry(deps, entry)))
    after = entries.at(-1)?.name
  }
}

/** What is to become of the tick at which an entry stands. */
interface Plan {
  entry: CronEntry
  tick: CronTick
  job: NewJob | SkipReason
  /** The entry's next time after now. */
  next: Tick | null
  missed?: Missed
}

/** The result of firing one due entry. */
interface Pass {
  /** False: the entry still stands at this tick, which the next pass tries again. */
  isDone: boolean
  missed?: Missed | undefined
}

function planOf(deps: Deps, entry: DueEntry, wall: number, refusal: OjsError | null): Plan {
  const { name, seq, nextRunAt } = entry
  const tick: CronTick = { name, seq, at: nextRunAt }
  const following = nextOf(deps, entry, tick.at)
  const isBehind = following !== null && following.at <= wall
  const next = isBehind ? nextOf(deps, entry, wall) : following
  const job = jobOf(deps, entry, tick, refusal)
  return {
    entry,
    tick,
    job,
    next,
    ...(isBehind && { missed: missedSince(entry, following, wall) }),
  }
}

async function fireEntry(
  deps: Deps,
  { entry, tick, next, missed, ...plan }: Plan,
  areReportsOut = false,
): Promise<Pass> {
  const job = reasonToSkip(deps, entry) ?? plan.job
  const change = {
    job: typeof job === 'string' ? null : job,
    reason: typeof job === 'string' ? job : undefined,
    nextRunAt: next?.at ?? null,
    maxQueued: MAX_QUEUED,
    ...makingNow(deps),
    ...(areReportsOut && { isUnsettled: () => true }),
  }
  const outcome = await fireUnblocked(deps, tick, change, (fired) => {
    if (typeof job === 'string') tellSkipped(deps, entry, tick, job)
    else tellFired(deps, entry, tick, fired)
    tellGap(deps, cronFacts(entry), next)
  })
  if (outcome === 'blocked' || outcome === 'unsettled') return { isDone: false }
  return { isDone: true, missed: outcome === 'stale' ? undefined : missed }
}

/** `isUnsettled`: an unconfirmed job may still be withdrawn, so it cannot be a duplicate yet. */
export function makingNow(deps: Deps): Omit<Making, 'job'> {
  return { now: deps.clock.now(), isUnsettled: (id) => deps.transient.unconfirmed.has(id) }
}

/**
 * Fires a tick. While the ledger answers `blocked` (overlap policy `cancel_previous`), cancels the running
 * jobs and tries again. Calls `tell` at once after the commit: if another write of that commit replaced the
 * new job, its end is emitted next.
 */
async function fireUnblocked(
  deps: Deps,
  tick: CronTick,
  change: TickChange,
  tell: (fired: Fired) => void,
): Promise<Fired['outcome']> {
  let fired = await deps.ledger.cron.fire(tick, change)
  for (let round = 0; fired.outcome === 'blocked' && round < MAX_CANCEL_ROUNDS; round++) {
    const context = contextOf(tick)
    await Promise.all(fired.runningIds.map((id) => cancelJob(deps, id, context)))
    fired = await deps.ledger.cron.fire(tick, change)
  }
  const { outcome } = fired
  if (outcome !== 'blocked' && outcome !== 'unsettled' && outcome !== 'stale') tell(fired)
  return outcome
}

async function releaseEntry(deps: Deps, entry: CronEntry): Promise<void> {
  const [at] = entry.queued
  if (at === undefined || isPausedFor(deps, entry)) return
  const tick: CronTick = { name: entry.name, seq: entry.seq, at }
  const job = jobOf(deps, entry, tick, await refusalOf(deps, entry))
  if (typeof job === 'string') {
    if (await deps.ledger.cron.drop(tick, job)) tellSkipped(deps, entry, tick, job)
    return
  }
  const released = await deps.ledger.cron.release(tick, { job, ...makingNow(deps) })
  tellFired(deps, entry, tick, released)
}

/** Why a tick of the entry gets no job now, whatever its job is. */
function reasonToSkip(deps: Deps, entry: CronEntry): SkipReason | null {
  if (isPausedFor(deps, entry)) return 'queue_paused'
  // The timer waits for the end of the maintenance; only a change of the entry cannot.
  return isInMaintenance(deps) ? 'maintenance' : null
}

/** True when the entry's queue is paused or drains: nothing is enqueued then (OJS queues), ticks are skipped. */
function isPausedFor(deps: Deps, entry: CronEntry): boolean {
  const { queue } = cronFacts(entry)
  return isPaused(deps, queue) || drainOf(deps, queue) !== null
}

/** Makes the job of a tick, or returns why it gets none. `refusal`: what PUSH would refuse it with now. */
function jobOf(
  deps: Deps,
  entry: CronEntry,
  tick: CronTick,
  refusal: OjsError | null,
): NewJob | SkipReason {
  if (refusal !== null) return invalid(deps, entry, tick, refusal)
  try {
    return newCronJob(deps, entry, tick.at, contextOf(tick))
  } catch (error) {
    // The template was valid when it was registered; the gateway's configuration has changed since.
    return invalid(deps, entry, tick, error)
  }
}

/**
 * What PUSH would refuse the entry's job with now: its schema may be another one than at the registration.
 * Rejects if the ledger cannot tell: then no time is skipped.
 */
async function refusalOf(deps: Deps, { template }: CronEntry): Promise<OjsError | null> {
  try {
    await checkArgs(deps, template)
    return null
  } catch (error) {
    if (error instanceof OjsError && error.status < 500) return error
    throw error
  }
}

function invalid(deps: Deps, entry: CronEntry, tick: CronTick, error: unknown): SkipReason {
  const { name, seq } = entry
  const fault = error instanceof Error ? error.message : String(error)
  noteStop(deps, entry, { kind: 'invalid', seq, at: tick.at, fault })
  deps.logger.error({ err: error, cron: name }, 'cron job skips a time: its job is not valid')
  return 'invalid_job'
}

function tellFired(deps: Deps, entry: CronEntry, tick: CronTick, fired: Fired): void {
  switch (fired.outcome) {
    case 'fired':
      noteStop(deps, entry, null)
      tellMade(deps, entry, tick, fired)
      break
    case 'unneeded':
      tellSkipped(deps, entry, tick, 'duplicate', fired.existingId)
      break
    case 'overlapped':
      noteStop(deps, entry, blockedBy(entry, fired.runningId))
      tellSkipped(deps, entry, tick, 'overlap', fired.runningId)
      break
    case 'queue-full':
      tellSkipped(deps, entry, tick, 'queue_full', fired.runningId)
      break
    case 'skipped':
    case 'queued':
    case 'blocked':
    case 'unsettled':
    case 'stale':
      break
  }
}

function blockedBy(entry: CronEntry, jobId: string | null): CronStop | null {
  const { queue } = cronFacts(entry)
  return jobId === null ? null : { kind: 'blocked', seq: entry.seq, jobId, queue }
}

function tellMade(
  deps: Deps,
  entry: CronEntry,
  tick: CronTick,
  { job, cancelled }: Fired & { outcome: 'fired' },
): void {
  tellRun(deps, entry, { job, cancelled, scheduledAt: tick.at }, contextOf(tick))
}

/** Does what follows the commit of a run. `isManual`: somebody asked for it. */
export function tellRun(
  deps: Deps,
  entry: CronEntry,
  run: Pick<Fired & { outcome: 'fired' }, 'job' | 'cancelled'> & {
    scheduledAt: number
    isManual?: true
  },
  context: RequestContext,
): void {
  const { job, cancelled, ...when } = run
  for (const one of cancelled) void followCancel(deps, one, context)
  const requestId = when.isManual && context.requestId
  deps.events.emit({ type: storedEvent(job), job, requestId })
  deps.events.emit({ type: 'cron.triggered', cron: cronFacts(entry), job, ...when })
  if (job.outbox !== null) deps.wakeRelay()
}

function tellSkipped(
  deps: Deps,
  entry: CronEntry,
  { at }: CronTick,
  reason: SkipReason,
  existingJobId: string | null = null,
): void {
  const cron = cronFacts(entry)
  deps.events.emit({ type: 'cron.skipped', cron, scheduledAt: at, reason, existingJobId })
}

function contextOf({ name }: CronTick): RequestContext {
  return { requestId: `cron:${name}` }
}
