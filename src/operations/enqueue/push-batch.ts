/** PUSH batch: all jobs in one transaction and published in parallel, or none. */
import { OjsError } from '../../errors.ts'
import { freshRow, type JobRow, type NewJob } from '../../job/job.ts'
import { refuseBeside } from '../../job/members.ts'
import { sentWith, traceIdIn } from '../../job/trace/carry.ts'
import { SortingBudget } from '../../job/values/canonical-json.ts'
import type { Cancelled } from '../../ledger/ended.ts'
import type { Admitted, EnqueueTerms, Unsettled } from '../../ledger/enqueued.ts'
import type { KeyedRequest, Remembered } from '../../ledger/idempotency.ts'
import { Unreadable } from '../../schemas/json/json-list.ts'
import { atIndex } from '../../schemas/requests/batch-item.ts'
import { parseBatch, parsePush } from '../../schemas/requests/validator.ts'
import { startNow } from '../../slices.ts'
import { storedEvent } from '../../telemetry/events.ts'
import { producing } from '../../telemetry/tracing.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { followCancel } from '../job-end.ts'
import { type InBatch, idTaken, keyTaken } from '../job-errors.ts'
import {
  isFailure,
  noteWithdrawal,
  type Sent,
  sendJobMessage,
  sendRefusal,
} from '../job-messages/send.ts'
import { requireNoMaintenance } from '../maintenance.ts'
import { requirePublishing } from '../require-broker.ts'
import { briefly, broadcastReuse } from '../workers/broadcasts.ts'
import { admitted } from './admission.ts'
import { ArgsChecks } from './check-args.ts'
import { type AskedAgain, askedFor, once, rememberedJobs } from './idempotency.ts'
import { newJob, requireQueue } from './push.ts'

export interface PushedBatch {
  /** In the order of the request. */
  jobs: readonly JobRow[]
  /** Indexes of the jobs that existed before; by the `unique` policy of the new ones they are the answer. */
  existing: readonly number[]
  /** True: this is the answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
}

/**
 * PUSH batch (seed 001 §7.2, §9.2): enqueues all of the jobs or none. Stores them in one transaction and
 * publishes their job messages in parallel. Job messages that are delivered to this gateway before every
 * confirm is in are parked, so that the batch becomes claimable in one step (docs/architecture.md §2). Throws
 * what PUSH throws, with `details.index` when one job is the cause.
 */
export async function pushBatch(
  deps: Deps,
  body: Record<string, unknown>,
  context: RequestContext,
): Promise<PushedBatch> {
  requireAllReadable(body['jobs'])
  return await once(
    deps,
    { endpoint: 'jobs/batch', body, context },
    (terms) => pushNew(deps, body, context, terms),
    (remembered, request) =>
      replayed(deps, remembered, request, { context, jobs: listOf(body['jobs']) }),
  )
}

function listOf(items: unknown): readonly unknown[] {
  return Array.isArray(items) ? items : []
}

/** Before the request is compared with others, which only JSON can be. */
function requireAllReadable(items: unknown): void {
  if (!Array.isArray(items)) return
  for (const [index, item] of items.entries()) {
    if (item instanceof Unreadable) throw atIndex(item.error, index)
  }
}

async function pushNew(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  terms: EnqueueTerms,
): Promise<PushedBatch> {
  const batch = parseBatch(body)
  refuseBeside('batch', batch)
  const items = batch.jobs
  const step = { name: 'enqueue_batch', queue: undefined, parent: context } as const
  // An idempotency key names the request as a whole. In the headers of each job it would say that all jobs
  // of the batch are the same.
  const { idempotencyKey: _, ...ofEach } = context
  return await producing(step, async (sent) => {
    const inner = sentWith(ofEach, sent)
    const checks = new ArgsChecks(deps, items.length, atIndex)
    const shared = { checks, sorting: new SortingBudget() }
    const jobs = await startNow(newJobs(deps, items, shared, inner))
    requireNoMaintenance(deps)
    requirePublishing(deps)
    await requireQueues(deps, jobs)
    const enqueued = { jobs, chosenIds: jobs.map((job) => job.id) }
    return await admitted(deps, enqueued, terms, (all) => storeAll(deps, jobs, context, all))
  })
}

interface Shared {
  checks: ArgsChecks
  sorting: SortingBudget
}

function* newJobs(
  deps: Deps,
  items: readonly unknown[],
  shared: Shared,
  context: RequestContext,
): Generator<Promise<void> | undefined, NewJob[]> {
  const jobs: NewJob[] = []
  let text = 0
  for (const [index, item] of items.entries()) {
    const job = newBatchJob(deps, { item, index, ...shared }, context)
    if (job === null) break
    jobs.push(job)
    text += job.envelope.length
    if (text < SLICE_TEXT) continue
    text = 0
    yield undefined
  }
  const checked = shared.checks.rest()
  if (checked !== undefined) yield checked
  return jobs
}

/** Queues that are declared at the same time; each takes a channel. */
const QUEUES_AT_ONCE = 8

/** Jobs with so much text, in characters, are made within a few milliseconds. */
const SLICE_TEXT = 65_536

async function requireQueues(deps: Deps, jobs: readonly NewJob[]): Promise<void> {
  const queues = [...new Set(jobs.map((job) => job.queue))]
  for (let next = 0; next < queues.length; next += QUEUES_AT_ONCE) {
    const some = queues.slice(next, next + QUEUES_AT_ONCE)
    const outcomes = await Promise.allSettled(some.map((queue) => requireQueue(deps, queue)))
    // The first of them in the order of the batch, whatever the order of the answers.
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome.status === 'fulfilled') continue
      const error: unknown = outcome.reason
      const index = jobs.findIndex((job) => job.queue === some[i])
      throw error instanceof OjsError ? error.withDetails({ index }) : error
    }
  }
}

async function storeAll(
  deps: Deps,
  jobs: readonly NewJob[],
  context: RequestContext,
  terms: EnqueueTerms,
): Promise<PushedBatch | Unsettled> {
  const isStaged = stage(deps, jobs)
  try {
    const stored = await deps.ledger.insertAll(jobs, deps.clock.now(), { ...terms, cause: context })
    switch (stored.outcome) {
      case 'inserted':
        return await publishStored(deps, jobs, stored.stored, context, terms.request?.key)
      case 'duplicate': {
        const id = jobs[stored.index]?.id ?? ''
        if (deps.transient.undecided.has(id)) return { outcome: 'unsettled', id }
        throw idTaken(id, placeIn(jobs, stored.index, jobs[stored.index]))
      }
      case 'conflict':
        throw keyTaken(
          stored.existing,
          jobs[stored.index]?.unique?.key ?? '',
          placeIn(jobs, stored.index, stored.existing),
        )
      case 'remembered':
        return await replayed(deps, stored.remembered, terms.request, askedFor(context, jobs))
      case 'unsettled':
        return stored
    }
  } finally {
    unstage(deps, isStaged)
  }
}

/** The place of the refused job in the batch; `isOwn`: `other`, with which it collides, stands before it. */
function placeIn(
  jobs: readonly NewJob[],
  index: number,
  other: Pick<NewJob, 'id'> | undefined,
): InBatch {
  return { index, isOwn: jobs.slice(0, index).some(({ id }) => id === other?.id) }
}

async function replayed(
  deps: Deps,
  remembered: Remembered,
  request: KeyedRequest | undefined,
  asked: AskedAgain,
): Promise<PushedBatch> {
  const jobs = request ? await rememberedJobs(deps, remembered, request, asked) : []
  return { jobs, existing: remembered.existing, isReplay: true }
}

async function publishStored(
  deps: Deps,
  jobs: readonly NewJob[],
  stored: readonly Admitted[],
  context: RequestContext,
  key: string | undefined,
): Promise<PushedBatch> {
  const replaced = stored.flatMap((admittedJob) => cancelledBy(admittedJob))
  const cancelled = new Map(replaced.map(({ job }) => [job.id, job]))
  const rows = stored.map((admittedJob, i) => rowOf(admittedJob, jobs[i]))
  // A later job of the batch may have replaced an earlier one, which is then answered as cancelled.
  const answered = rows.map((row) => cancelled.get(row.id) ?? row)
  const existing = stored.flatMap(({ outcome }, i) => (outcome === 'existing' ? [i] : []))
  const isOwn = (_: JobRow, i: number) => stored[i]?.outcome === 'inserted'
  const own = answered.filter(isOwn)
  const placeOf = (id: string) => jobs.findIndex((job) => job.id === id)
  // Holds the event of each job as it was stored, before `followCancel` emits `job.cancelled` for those
  // that a later job of the batch replaced.
  hold(deps, rows.filter(isOwn), context)
  try {
    const broadcasts = replaced.map((old) => followCancel(deps, old, context))
    const isOut = await publishAll(deps, own, { isFinal: replaced.length > 0, key, placeOf })
    if (broadcasts.length > 0) await briefly(Promise.all(broadcasts))
    // In a later turn: until `unstage` the relay would skip the jobs of this batch.
    if (!isOut) setImmediate(() => deps.wakeRelay())
  } finally {
    for (const { id } of own) {
      deps.events.release(id)
      deps.transient.undecided.end(id)
    }
  }
  const firstJobId = own[0]?.id
  const { requestId } = context
  const traceId = traceIdIn(context)
  deps.logger.info({ jobs: own.length, firstJobId, requestId, traceId }, 'batch enqueued')
  return { jobs: answered, existing }
}

function cancelledBy(stored: Admitted): readonly Cancelled[] {
  return stored.outcome === 'inserted' ? (stored.replacing?.cancelled ?? []) : []
}

function rowOf(stored: Admitted, job: NewJob | undefined): JobRow {
  if (stored.outcome === 'existing') return stored.job
  const placed = stored.replacing?.job ?? job
  if (!placed) throw new Error('the ledger stored more jobs than it was given')
  return freshRow(placed, stored)
}

/** Holds the jobs' events until the confirms are in. `inBatch`: the log has one line for the whole batch. */
function hold(deps: Deps, rows: readonly JobRow[], { requestId }: RequestContext): void {
  for (const job of rows) {
    deps.transient.undecided.begin(job.id)
    if (job.generation > 0) broadcastReuse(deps, job)
    deps.events.hold({ type: storedEvent(job), job, requestId, inBatch: true })
  }
}

/** Null: the job is at fault, and the request fails when the jobs before it are checked. */
function newBatchJob(
  deps: Deps,
  { item, index, checks, sorting }: Shared & { item: unknown; index: number },
  context: RequestContext,
): NewJob | null {
  try {
    const request = parsePush(item)
    checks.add(request, index)
    return newJob(deps, request, context, sorting)
  } catch (error) {
    checks.fail(error, index)
    return null
  }
}

/** Stages the batch; returns its ids but for those staged by another batch, which the insert will refuse. */
function stage(deps: Deps, jobs: readonly NewJob[]): string[] {
  const ids = jobs.map((job) => job.id).filter((id) => !deps.jobMessages.staging.has(id))
  for (const id of ids) deps.jobMessages.staging.add(id)
  return ids
}

function unstage(deps: Deps, ids: readonly string[]): void {
  for (const id of ids) {
    deps.jobMessages.staging.delete(id)
    deps.broker.unpark(id)
  }
}

interface Terms {
  /**
   * True: the batch replaced jobs, which cannot be undone. It is not withdrawn then, and the outbox goes on
   * owing the job messages that failed.
   */
  isFinal: boolean
  /** The idempotency key of the request. */
  key: string | undefined
  /** Returns the index of a job in the batch. */
  placeOf(id: string): number
}

/**
 * Publishes all job messages; withdraws the whole batch and throws when one publish fails. Returns false when
 * messages stay owed (`isFinal`).
 */
async function publishAll(
  deps: Deps,
  rows: readonly JobRow[],
  { isFinal, key, placeOf }: Terms,
): Promise<boolean> {
  const owed = rows.filter((row) => row.state === 'available' && row.outbox !== null)
  const sent = await Promise.all(owed.map((row) => sendJobMessage(deps, row)))
  // A message that is too large closes the channel, and other publishes on it end as `unknown`. Report the
  // message that is too large: it is the cause, and a retry of the batch would not help.
  const refused =
    sent.find(({ outcome }) => outcome === 'too-large') ??
    // `refused` says that nothing was sent, so any other failure is the better reason.
    sent.find(({ outcome }) => isFailure(outcome) && outcome !== 'refused') ??
    sent.find(({ outcome }) => isFailure(outcome))
  if (refused === undefined || !isFailure(refused.outcome)) return true
  if (isFinal) return false
  const started = await withdrawAll(deps, rows, sent, key)
  const isPartlySent = sent.some(({ outcome }) => outcome !== 'refused')
  const isBusy = refused.outcome === 'refused' && !deps.ledger.known.lost.has(refused.row.queue)
  // A job that was sent may be taken before its withdrawal, so the batch is not one that RabbitMQ never saw.
  const outcome = isBusy && isPartlySent ? 'unknown' : refused.outcome
  const refusal = sendRefusal(deps, refused.row, outcome)
  const index = placeOf(refused.row.id)
  // `started`: jobs that a native consumer took before the confirms; they run, whatever the answer is.
  throw refusal.withDetails({ index, ...(started.length > 0 && { started }) })
}

async function withdrawAll(
  deps: Deps,
  rows: readonly JobRow[],
  sent: readonly Sent[],
  key: string | undefined,
): Promise<string[]> {
  const started = await deps.ledger.withdrawAll(rows, key)
  const sentById = new Map(sent.map((publish) => [publish.row.id, publish]))
  for (const { id, generation } of rows) {
    const isWithdrawn = !started.includes(id)
    if (isWithdrawn) deps.events.drop(id)
    const publish = sentById.get(id)
    if (publish) await noteWithdrawal(deps, publish, isWithdrawn)
    // Nothing was published for it. If it is a schedule that came due meanwhile, its row says that a job
    // message is out; but the relay does not publish staged jobs, so no message can come back.
    else deps.ledger.messageReturned(id, generation)
  }
  return started
}
