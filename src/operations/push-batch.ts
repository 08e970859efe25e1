import { publishRefusal } from '../broker/refusals.ts'
import { OjsError } from '../errors.ts'
import { freshRow, type JobRow, type NewJob } from '../job/job.ts'
import { sentWith } from '../job/trace-carry.ts'
import type { Stored } from '../ledger/ledger.ts'
import { Fuel, stepsFor } from '../schemas/fuel.ts'
import { parseBatch, parsePush } from '../schemas/validator.ts'
import { producing } from '../telemetry/tracing.ts'
import { checkArgs } from './check-args.ts'
import type { Deps, RequestContext } from './deps.ts'
import { newJob, requireQueue, storedEvent } from './push.ts'
import { requirePublishing } from './refusals.ts'
import { noteLostToken, type Sent, sendToken } from './send-token.ts'

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
): Promise<JobRow[]> {
  const items = parseBatch(body).jobs
  return await producing({ name: 'enqueue_batch', queue: undefined, parent: context }, (sent) => {
    const inner = sentWith(context, sent)
    const fuel = new Fuel(stepsFor(items.length))
    const jobs = items.map((item, index) => newBatchJob(deps, { item, index, fuel }, inner))
    return storeAll(deps, jobs, context)
  })
}

async function storeAll(
  deps: Deps,
  jobs: readonly NewJob[],
  context: RequestContext,
): Promise<JobRow[]> {
  requirePublishing(deps)
  for (const queue of new Set(jobs.map((job) => job.queue))) await requireQueue(deps, queue)
  const isStaged = stage(deps, jobs)
  let rows: JobRow[]
  try {
    rows = await insertAll(deps, jobs)
    await publishAll(deps, rows)
  } finally {
    unstage(deps, isStaged)
  }
  tell(deps, rows, context)
  return rows
}

/** Each job is an event of its own; the log has one line for all of them. */
function tell(deps: Deps, rows: readonly JobRow[], { requestId }: RequestContext): void {
  for (const job of rows) {
    deps.events.emit({ type: storedEvent(job), job, requestId, inBatch: true })
  }
  const [first] = rows
  deps.logger.info({ jobs: rows.length, firstJobId: first?.id, requestId }, 'batch enqueued')
}

/** Only the job that needs no other header: an idempotency key names the request as a whole. */
function newBatchJob(
  deps: Deps,
  { item, index, fuel }: { item: unknown; index: number; fuel: Fuel },
  context: RequestContext,
): NewJob {
  try {
    const request = parsePush(item)
    checkArgs(deps, request, index, fuel)
    return newJob(deps, request, context)
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    // Seed 001 §9.2: which job of the batch it is about.
    const message = `Batch validation failed: job at index ${index}: ${error.message}`
    throw error.withDetails({ index }, message)
  }
}

/** Ids that somebody else has staged stay his: the insert will refuse this batch. */
function stage(deps: Deps, jobs: readonly NewJob[]): string[] {
  const ids = jobs.map((job) => job.id).filter((id) => !deps.staging.has(id))
  for (const id of ids) deps.staging.add(id)
  return ids
}

function unstage(deps: Deps, ids: readonly string[]): void {
  for (const id of ids) {
    deps.staging.delete(id)
    deps.broker.unpark(id)
  }
}

async function insertAll(deps: Deps, jobs: readonly NewJob[]): Promise<JobRow[]> {
  const inserted = await deps.ledger.insertAll(jobs, deps.clock.now())
  if (inserted.outcome === 'duplicate') throw duplicate(jobs, inserted.index)
  return jobs.map((job, i) => freshRow(job, storedAt(inserted.stored, i)))
}

function storedAt(stored: readonly Stored[], i: number): Stored {
  const one = stored[i]
  if (!one) throw new Error('the ledger stored fewer jobs than it was given')
  return one
}

function duplicate(jobs: readonly NewJob[], index: number): OjsError {
  const id = jobs[index]?.id ?? ''
  return new OjsError('duplicate', `A job with the id '${id}' already exists.`, {
    details: { existing_job_id: id, field: 'id', index },
  })
}

/** Every confirm, or nothing: one refusal withdraws the whole batch. */
async function publishAll(deps: Deps, rows: readonly JobRow[]): Promise<void> {
  const owed = rows.filter((row) => row.outbox !== null)
  const sent = await Promise.all(owed.map((row) => sendToken(deps, row)))
  const refused = sent.find(({ outcome }) => outcome !== 'confirmed')
  if (refused === undefined || refused.outcome === 'confirmed') return
  const started = await withdrawAll(deps, rows, sent)
  const refusal = publishRefusal(refused.row.queue, refused.outcome)
  const index = rows.findIndex((row) => row.id === refused.row.id)
  // A native consumer was faster than the confirms: those jobs run, whatever we answer.
  throw refusal.withDetails({ index, ...(started.length > 0 && { started }) })
}

async function withdrawAll(
  deps: Deps,
  rows: readonly JobRow[],
  sent: readonly Sent[],
): Promise<string[]> {
  const started = await deps.ledger.withdrawAll(rows)
  for (const one of sent) if (!started.includes(one.row.id)) noteLostToken(deps, one)
  return started
}
