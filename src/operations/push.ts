import { queueRefusal } from '../broker/refusals.ts'
import { requireTypeCase } from '../dialect.ts'
import type { SortingBudget } from '../job/canonical-json.ts'
import { toNewJob } from '../job/envelope.ts'
import { freshRow, type JobRow, type NewJob } from '../job/job.ts'
import type { PushRequest } from '../job/request.ts'
import { enqueueing, sentWith, traceOf } from '../job/trace-carry.ts'
import type { EnqueueTerms, Stored, Unsettled } from '../ledger/enqueued.ts'
import type { KeyedRequest, Remembered } from '../ledger/idempotency.ts'
import { parsePush } from '../schemas/validator.ts'
import { producing } from '../telemetry/tracing.ts'
import { briefly } from './broadcasts.ts'
import { followCancel } from './cancel.ts'
import type { Deps, RequestContext } from './deps.ts'
import { admitted } from './enqueue/admission.ts'
import { checkArgs } from './enqueue/check-args.ts'
import { once, rememberedJobs } from './enqueue/idempotency.ts'
import { idTaken, keyTaken } from './job-refusals.ts'
import { requireNotPaused } from './pause.ts'
import { requirePublishing } from './require-broker.ts'
import {
  isFailure,
  leaveToRelay,
  noteWithdrawal,
  type Sent,
  sendRefusal,
  sendToken,
} from './token/send-token.ts'

/** So many jobs are worth a commit of their own. */
const FEW = 24

export interface Pushed {
  job: JobRow
  /** Nothing was stored: its `unique` policy is content with this job. */
  isDuplicate?: boolean
  /** The answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
}

/**
 * PUSH (seed 001 §7.1, seed 002 §5.1): stored, published, confirmed; then, and only then, the
 * answer. Throws `OjsError`: 400 invalid, 400 against its schema, 409 for an id or a unique key that
 * is taken, 413, 422 unsupported, 429 queue full, 503 when RabbitMQ or the ledger cannot take it
 * (nothing is kept then).
 */
export function push(deps: Deps, body: unknown, context: RequestContext): Promise<Pushed> {
  return once(
    deps,
    { endpoint: 'jobs', body, context },
    (terms) => pushNew(deps, body, context, terms),
    (remembered, request) => replayed(deps, remembered, request),
  )
}

async function pushNew(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  terms: EnqueueTerms,
): Promise<Pushed> {
  const request = parsePush(body)
  checkArgs(deps, request)
  return await producing(enqueueing(request, context), async (sent) => {
    const job = newJob(deps, request, sentWith(context, sent))
    requirePublishing(deps)
    await requireQueue(deps, job.queue)
    const enqueued = { jobs: [job], chosenIds: [request.id ?? null] }
    return await admitted(deps, enqueued, terms, (all) => store(deps, job, context, all))
  })
}

async function store(
  deps: Deps,
  job: NewJob,
  context: RequestContext,
  terms: EnqueueTerms,
): Promise<Pushed | Unsettled> {
  const { request, isUnsettled } = terms
  const early = { request, isUnsettled, enough: enoughFor(deps, job) }
  const stored = await deps.ledger.insert(job, deps.clock.now(), early)
  switch (stored.outcome) {
    case 'inserted':
      return { job: await publish(deps, job, stored, context, terms.request?.key) }
    case 'existing':
      return { job: stored.job, isDuplicate: true }
    case 'duplicate':
      if (deps.transient.undecided.has(job.id)) return { outcome: 'unsettled', id: job.id }
      throw idTaken(job.id)
    case 'conflict':
      throw keyTaken(stored.existing, job.unique?.key ?? '')
    case 'remembered':
      return replayed(deps, stored.remembered, terms.request)
    case 'unsettled':
      return stored
  }
}

/**
 * RabbitMQ works on the first jobs of a turn of the event loop while the requests behind them are
 * read, as long as it has no more than those to confirm. Else a turn would store the jobs of all
 * clients, and then all would wait for RabbitMQ (bench/HISTORY.md). Without a token there is no hurry.
 */
function enoughFor({ broker }: Deps, { start }: NewJob): number {
  return start.state === 'available' ? Math.max(FEW, broker.publishing) : Number.POSITIVE_INFINITY
}

/** Its token is out when this resolves, if it needs one. `key`: of the request. */
async function publish(
  deps: Deps,
  job: NewJob,
  stored: Stored,
  context: RequestContext,
  key: string | undefined,
): Promise<JobRow> {
  const { replacing } = stored
  const row = freshRow(replacing?.job ?? job, stored)
  const told = replacing?.cancelled.map((one) => followCancel(deps, one, context)) ?? []
  deps.events.hold({ type: storedEvent(row), job: row, requestId: context.requestId })
  deps.transient.undecided.begin(row.id)
  try {
    if (row.outbox !== null) {
      const sent = await sendToken(deps, row)
      // What was replaced cannot be had back: then the token stays owed, and the relay sees to it.
      if (replacing !== undefined) leaveToRelay(deps, sent)
      else if (isFailure(sent.outcome)) await refuseUnlessStarted(deps, sent, key)
    }
    if (told.length > 0) await briefly(Promise.all(told))
  } finally {
    deps.events.release(row.id)
    deps.transient.undecided.end(row.id)
  }
  return row
}

function replayed(deps: Deps, remembered: Remembered, request: KeyedRequest | undefined): Pushed {
  const [job] = request ? rememberedJobs(deps, remembered, request) : []
  if (!job) throw new Error('a PUSH with a key is remembered with its job')
  return { job, isDuplicate: remembered.existing.length > 0, isReplay: true }
}

/** A job that needs no token yet: `scheduled`, or `pending` until somebody activates it. */
export function storedEvent(row: JobRow): 'job.enqueued' | 'job.scheduled' | 'job.staged' {
  if (row.state === 'scheduled') return 'job.scheduled'
  return row.state === 'pending' ? 'job.staged' : 'job.enqueued'
}

/** With defaults; not stored. Throws `OjsError`. `sorting`: of the request that it is a part of. */
export function newJob(
  deps: Deps,
  request: PushRequest,
  context: RequestContext,
  sorting?: SortingBudget,
): NewJob {
  requireTypeCase(deps.settings.dialect, request.type)
  return toNewJob(request, {
    newId: deps.newId,
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    timeoutMs: deps.settings.timeoutMs,
    prefix: deps.settings.prefix,
    carry: traceOf(request, context),
    ...(sorting && { sorting }),
  })
}

/**
 * The first use of a queue declares it; from then on this costs two looks into maps. Throws 422 for
 * one that is paused.
 */
export async function requireQueue(deps: Deps, queue: string): Promise<void> {
  requireNotPaused(deps, queue)
  if (deps.broker.isDeclared(queue)) return
  const outcome = await deps.broker.ensureQueue(queue)
  if (outcome !== 'ready') throw queueRefusal(queue, outcome)
}

/**
 * Throws, with the job withdrawn; returns where a consumer was faster than the confirm: the job is
 * being worked on, which is a 201.
 */
async function refuseUnlessStarted(deps: Deps, sent: Sent, key: string | undefined): Promise<void> {
  const { row, outcome } = sent
  if (!isFailure(outcome) || row.outbox === null) return
  // Its row owes the token until then, and the relay must not send what is being refused.
  deps.tokens.sending.add(row.id)
  const isWithdrawn = await deps.ledger
    .withdraw(row.id, row.outbox, key)
    .finally(() => deps.tokens.sending.delete(row.id))
  noteWithdrawal(deps, sent, isWithdrawn)
  if (!isWithdrawn) return
  deps.events.drop(row.id)
  throw sendRefusal(deps, row, outcome)
}
