import { OjsError } from '../errors.ts'
import { SortingBudget } from '../job/canonical-json.ts'
import { freshRow, type JobRow, type NewJob } from '../job/job.ts'
import { sentWith, traceIdIn } from '../job/trace-carry.ts'
import type { Admitted, EnqueueTerms, Unsettled } from '../ledger/enqueued.ts'
import type { KeyedRequest, Remembered } from '../ledger/idempotency.ts'
import type { Cancelled } from '../ledger/ledger.ts'
import { atIndex } from '../schemas/batch-item.ts'
import { Fuel, stepsFor } from '../schemas/fuel.ts'
import { parseBatch, parsePush } from '../schemas/validator.ts'
import { producing } from '../telemetry/tracing.ts'
import { briefly } from './broadcasts.ts'
import { followCancel } from './cancel.ts'
import type { Deps, RequestContext } from './deps.ts'
import { admitted } from './enqueue/admission.ts'
import { checkArgs } from './enqueue/check-args.ts'
import { once, rememberedJobs } from './enqueue/idempotency.ts'
import { type InBatch, idTaken, keyTaken } from './job-refusals.ts'
import { newJob, requireQueue, storedEvent } from './push.ts'
import { requirePublishing } from './require-broker.ts'
import { isFailure, noteWithdrawal, type Sent, sendRefusal, sendToken } from './token/send-token.ts'

export interface PushedBatch {
  /** In the order of the request. */
  jobs: readonly JobRow[]
  /** The places of those that were there before, and that their `unique` policy is content with. */
  existing: readonly number[]
  /** The answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
}

/**
 * PUSH batch (seed 001 §7.2, §9.2): all of the jobs or none. One transaction stores them; their
 * tokens are published side by side and wait here until every confirm is in, so that the batch
 * becomes claimable in one step (architecture §2). Throws what PUSH throws, with `details.index`
 * where one job is to blame.
 */
export async function pushBatch(
  deps: Deps,
  body: unknown,
  context: RequestContext,
): Promise<PushedBatch> {
  return await once(
    deps,
    { endpoint: 'jobs/batch', body, context },
    (terms) => pushNew(deps, body, context, terms),
    (remembered, request) => replayed(deps, remembered, request),
  )
}

async function pushNew(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  terms: EnqueueTerms,
): Promise<PushedBatch> {
  const items = parseBatch(body).jobs
  const step = { name: 'enqueue_batch', queue: undefined, parent: context } as const
  // It names the request as a whole: in the headers of its jobs it would say that they are one.
  const { idempotencyKey: _, ...ofEach } = context
  return await producing(step, async (sent) => {
    const inner = sentWith(ofEach, sent)
    const shared = { fuel: new Fuel(stepsFor(items.length)), sorting: new SortingBudget() }
    const jobs = items.map((item, index) => newBatchJob(deps, { item, index, ...shared }, inner))
    requirePublishing(deps)
    await requireQueues(deps, jobs)
    const enqueued = { jobs, chosenIds: jobs.map((job) => job.id) }
    return await admitted(deps, enqueued, terms, (all) => storeAll(deps, jobs, context, all))
  })
}

async function requireQueues(deps: Deps, jobs: readonly NewJob[]): Promise<void> {
  for (const queue of new Set(jobs.map((job) => job.queue))) {
    await requireQueue(deps, queue).catch((error: unknown) => {
      const index = jobs.findIndex((job) => job.queue === queue)
      throw error instanceof OjsError ? error.withDetails({ index }) : error
    })
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
    const stored = await deps.ledger.insertAll(jobs, deps.clock.now(), terms)
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
        return replayed(deps, stored.remembered, terms.request)
      case 'unsettled':
        return stored
    }
  } finally {
    unstage(deps, isStaged)
  }
}

/** Of the job that was refused; `other`: what is in its way. */
function placeIn(
  jobs: readonly NewJob[],
  index: number,
  other: Pick<NewJob, 'id'> | undefined,
): InBatch {
  return { index, isOwn: jobs.slice(0, index).some(({ id }) => id === other?.id) }
}

function replayed(
  deps: Deps,
  remembered: Remembered,
  request: KeyedRequest | undefined,
): PushedBatch {
  const jobs = request ? rememberedJobs(deps, remembered, request) : []
  return { jobs, existing: remembered.existing, isReplay: true }
}

async function publishStored(
  deps: Deps,
  jobs: readonly NewJob[],
  stored: readonly Admitted[],
  context: RequestContext,
  key: string | undefined,
): Promise<PushedBatch> {
  const replaced = stored.flatMap((one) => cancelledBy(one))
  const cancelled = new Map(replaced.map(({ job }) => [job.id, job]))
  const rows = stored.map((one, i) => rowOf(one, jobs[i]))
  // A later job of the batch may have taken the place of an earlier one, or be content with it.
  const answered = rows.map((row) => cancelled.get(row.id) ?? row)
  const existing = stored.flatMap((one, i) => (one.outcome === 'existing' ? [i] : []))
  const isOwn = (_: JobRow, i: number) => stored[i]?.outcome === 'inserted'
  const own = answered.filter(isOwn)
  const placeOf = (id: string) => jobs.findIndex((job) => job.id === id)
  // As they were stored, and before the end of those among them that were replaced is told.
  hold(deps, rows.filter(isOwn), context)
  try {
    const told = replaced.map((one) => followCancel(deps, one, context))
    const isOut = await publishAll(deps, own, { isFinal: replaced.length > 0, key, placeOf })
    if (told.length > 0) await briefly(Promise.all(told))
    // In a later turn: until then the batch is in hand here.
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

/** Until the confirms are in. Each job is an event of its own; the log has one line for all of them. */
function hold(deps: Deps, rows: readonly JobRow[], { requestId }: RequestContext): void {
  for (const job of rows) {
    deps.transient.undecided.begin(job.id)
    deps.events.hold({ type: storedEvent(job), job, requestId, inBatch: true })
  }
}

function newBatchJob(
  deps: Deps,
  asked: { item: unknown; index: number; fuel: Fuel; sorting: SortingBudget },
  context: RequestContext,
): NewJob {
  try {
    const request = parsePush(asked.item)
    checkArgs(deps, request, asked)
    return newJob(deps, request, context, asked.sorting)
  } catch (error) {
    throw error instanceof OjsError ? atIndex(error, asked.index) : error
  }
}

/** Ids that somebody else has staged stay his: the insert will refuse this batch. */
function stage(deps: Deps, jobs: readonly NewJob[]): string[] {
  const ids = jobs.map((job) => job.id).filter((id) => !deps.tokens.staging.has(id))
  for (const id of ids) deps.tokens.staging.add(id)
  return ids
}

function unstage(deps: Deps, ids: readonly string[]): void {
  for (const id of ids) {
    deps.tokens.staging.delete(id)
    deps.broker.unpark(id)
  }
}

interface Terms {
  /** What was replaced cannot be had back: the tokens that are refused stay owed. */
  isFinal: boolean
  /** Of the request. */
  key: string | undefined
  /** In the batch, of a job's id. */
  placeOf(id: string): number
}

/** Every confirm, or nothing: one refusal withdraws the whole batch. False: some of it stays owed. */
async function publishAll(
  deps: Deps,
  rows: readonly JobRow[],
  { isFinal, key, placeOf }: Terms,
): Promise<boolean> {
  const owed = rows.filter((row) => row.state === 'available' && row.outbox !== null)
  const sent = await Promise.all(owed.map((row) => sendToken(deps, row)))
  // It takes others with it, of which nobody knows; to try those again would not help.
  const tooLarge = sent.find(({ outcome }) => outcome === 'too-large')
  const refused = tooLarge ?? sent.find(({ outcome }) => isFailure(outcome))
  if (refused === undefined || !isFailure(refused.outcome)) return true
  if (isFinal) return false
  const started = await withdrawAll(deps, rows, sent, key)
  const refusal = sendRefusal(deps, refused.row, refused.outcome)
  const index = placeOf(refused.row.id)
  // A native consumer was faster than the confirms: those jobs run, whatever we answer.
  throw refusal.withDetails({ index, ...(started.length > 0 && { started }) })
}

async function withdrawAll(
  deps: Deps,
  rows: readonly JobRow[],
  sent: readonly Sent[],
  key: string | undefined,
): Promise<string[]> {
  const started = await deps.ledger.withdrawAll(rows, key)
  const sentById = new Map(sent.map((one) => [one.row.id, one]))
  for (const { id, generation } of rows) {
    const isWithdrawn = !started.includes(id)
    if (isWithdrawn) deps.events.drop(id)
    const one = sentById.get(id)
    if (one) noteWithdrawal(deps, one, isWithdrawn)
    // A schedule that came due meanwhile counts as out, and nobody publishes what is staged.
    else deps.ledger.tokenReturned(id, generation)
  }
  return started
}
