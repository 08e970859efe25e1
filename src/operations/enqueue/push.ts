/** PUSH: stores the job, publishes its message, answers after the confirm; withdraws it if refused. */
import { queueRefusal } from '../../broker/broker-errors.ts'
import { requireTypeCase } from '../../dialect.ts'
import { requireStartBeforeExpiry, toNewJob } from '../../job/envelope.ts'
import { freshRow, type JobRow, type NewJob } from '../../job/job.ts'
import type { PushRequest } from '../../job/request.ts'
import { enqueueing, sentWith, traceOf } from '../../job/trace/carry.ts'
import type { SortingBudget } from '../../job/values/canonical-json.ts'
import type { EnqueueTerms, Stored, Unsettled } from '../../ledger/enqueued.ts'
import type { KeyedRequest, Remembered } from '../../ledger/idempotency.ts'
import { parsePush } from '../../schemas/requests/validator.ts'
import { storedEvent } from '../../telemetry/events.ts'
import { producing } from '../../telemetry/tracing.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { followCancel } from '../job-end.ts'
import { idTaken, keyTaken } from '../job-errors.ts'
import {
  isFailure,
  leaveToRelay,
  noteWithdrawal,
  type Sent,
  sendJobMessage,
  sendRefusal,
} from '../job-messages/send.ts'
import { requireNoMaintenance } from '../maintenance.ts'
import { withDefaultRetry } from '../queues/configure.ts'
import { requireNotDraining } from '../queues/drain.ts'
import { requireNotPaused } from '../queues/pause.ts'
import { requirePublishing } from '../require-broker.ts'
import { requireJobInScope } from '../scope.ts'
import { briefly, broadcastReuse } from '../workers/broadcasts.ts'
import { admitted } from './admission.ts'
import { checkArgs } from './check-args.ts'
import { type AskedAgain, askedFor, once, rememberedJobs } from './idempotency.ts'

/** A commit with this many jobs is worth its cost (see `enoughFor`). */
const FEW = 32

export interface Pushed {
  job: JobRow
  /** True: nothing was stored; by the `unique` policy the existing `job` is the answer. */
  isDuplicate?: boolean
  /** True: this is the answer to an earlier request with the same `Idempotency-Key`. */
  isReplay?: boolean
}

/**
 * PUSH (seed 001 §7.1, seed 002 §5.1): stores the job, publishes its job message, and resolves only after
 * RabbitMQ has confirmed the message. Throws `OjsError`: 400 for an invalid job or `args` that do not match
 * the job's schema, 409 when the id or the unique key is taken, 413, 422 unsupported, 429 queue full, 503
 * when RabbitMQ or the ledger cannot take the job (the job is then not kept).
 */
export function push(deps: Deps, body: unknown, context: RequestContext): Promise<Pushed> {
  return once(
    deps,
    { endpoint: 'jobs', body, context },
    (terms) => pushNew(deps, body, context, terms),
    (remembered, request) => replayed(deps, remembered, request, { context, jobs: [body] }),
  )
}

/** What a copy of a job has beside a job of its own. */
export interface CopyOf {
  id: string
  /** It is the retry of that dead letter: then it is never withdrawn, and that job says as which it went on. */
  isRetry: boolean
}

/** PUSH of a copy. Throws what PUSH throws. */
export function pushCopy(
  deps: Deps,
  body: unknown,
  of: CopyOf,
  context: RequestContext,
): Promise<Pushed> {
  return once(
    deps,
    { endpoint: 'copy', body: { ...of, body }, context },
    (terms) => pushNew(deps, body, context, terms, of),
    (remembered, request) => replayed(deps, remembered, request, { context, jobs: [] }),
  )
}

async function pushNew(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  terms: EnqueueTerms,
  of?: CopyOf,
): Promise<Pushed> {
  const request = parsePush(body)
  const checked = checkArgs(deps, request)
  if (checked !== undefined) await checked
  return await producing(enqueueing(request, context), async (sent) => {
    const made = newJob(deps, request, sentWith(context, sent))
    const job = of === undefined ? made : { ...made, carry: { ...made.carry, copyOf: of.id } }
    requireNoMaintenance(deps)
    requirePublishing(deps)
    await requireQueue(deps, job.queue)
    const enqueued = { jobs: [job], chosenIds: [request.id ?? null] }
    return await admitted(deps, enqueued, terms, (all) =>
      store(deps, job, context, of?.isRetry ? { ...all, retryOf: of.id } : all),
    )
  })
}

async function store(
  deps: Deps,
  job: NewJob,
  context: RequestContext,
  terms: EnqueueTerms,
): Promise<Pushed | Unsettled> {
  const { request, isUnsettled, retryOf } = terms
  const early = { request, isUnsettled, retryOf, enough: enoughFor(deps, job), cause: context }
  const stored = await deps.ledger.insert(job, deps.clock.now(), early)
  switch (stored.outcome) {
    case 'inserted':
      return { job: await publish(deps, job, stored, context, terms) }
    case 'existing':
      return { job: stored.job, isDuplicate: true }
    case 'duplicate':
      if (deps.transient.undecided.has(job.id)) return { outcome: 'unsettled', id: job.id }
      throw idTaken(job.id)
    case 'conflict':
      throw keyTaken(stored.existing, job.unique?.key ?? '')
    case 'remembered':
      return await replayed(deps, stored.remembered, terms.request, askedFor(context, [job]))
    case 'unsettled':
      return stored
  }
}

/**
 * How many waiting writes the ledger commits at once instead of waiting for the end of the event loop turn.
 * With an early commit RabbitMQ works on the first job messages while Node still reads the requests behind
 * them; otherwise one turn would store the jobs of all clients, and then all would wait for RabbitMQ
 * (bench/HISTORY.md). While RabbitMQ has more than `FEW` messages to confirm, it is busy enough: then as many
 * writes have to wait first. A job that owes no message never hastens a commit.
 */
function enoughFor({ broker }: Deps, { start }: NewJob): number {
  return start.state === 'available' ? Math.max(FEW, broker.publishing) : Number.POSITIVE_INFINITY
}

/**
 * Publishes the job message of a stored job, if the job owes one, and resolves with its row after the
 * confirm. Withdraws the job and throws when the publish fails.
 */
async function publish(
  deps: Deps,
  job: NewJob,
  stored: Stored,
  context: RequestContext,
  { request, retryOf }: EnqueueTerms,
): Promise<JobRow> {
  const { replacing } = stored
  const row = freshRow(replacing?.job ?? job, stored)
  const broadcasts = replacing?.cancelled.map((old) => followCancel(deps, old, context)) ?? []
  deps.events.hold({ type: storedEvent(row), job: row, requestId: context.requestId })
  deps.transient.undecided.begin(row.id)
  if (row.generation > 0) broadcastReuse(deps, row)
  try {
    if (row.outbox !== null) {
      const sent = await sendJobMessage(deps, row)
      // The jobs that this one replaced are cancelled, which cannot be undone. So this job is not withdrawn:
      // the outbox goes on owing its job message, and the relay publishes it.
      // Nor is the retry of a dead letter, which says so already.
      if (replacing !== undefined || retryOf !== undefined) leaveToRelay(deps, sent)
      else if (isFailure(sent.outcome)) await refuseUnlessStarted(deps, sent, request?.key)
    }
    if (broadcasts.length > 0) await briefly(Promise.all(broadcasts))
  } finally {
    deps.events.release(row.id)
    deps.transient.undecided.end(row.id)
  }
  return row
}

async function replayed(
  deps: Deps,
  remembered: Remembered,
  request: KeyedRequest | undefined,
  asked: AskedAgain,
): Promise<Pushed> {
  const [job] = request ? await rememberedJobs(deps, remembered, request, asked) : []
  if (!job) throw new Error('the remembered PUSH has no job')
  return { job, isDuplicate: remembered.existing.length > 0, isReplay: true }
}

/** As `jobOf`, for a job that a client asks for now. */
export function newJob(
  deps: Deps,
  request: PushRequest,
  context: RequestContext,
  sorting?: SortingBudget,
): NewJob {
  const job = jobOf(deps, request, context, sorting)
  requireStartBeforeExpiry(request, job)
  return job
}

/**
 * Makes a job with all defaults out of a parsed request; does not store it. Throws `OjsError`. `sorting`:
 * the budget that all jobs of one request share.
 */
export function jobOf(
  deps: Deps,
  request: PushRequest,
  context: RequestContext,
  sorting?: SortingBudget,
): NewJob {
  requireTypeCase(deps.settings.dialect, request.type)
  const job = toNewJob(withDefaultRetry(deps, request), {
    newId: deps.newId,
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    timeoutMs: deps.settings.timeoutMs,
    resultMs: deps.settings.retention.completedMs,
    prefix: deps.settings.prefix,
    carry: traceOf(request, context),
    ...(sorting && { sorting }),
  })
  requireJobInScope(context, job)
  return job
}

/**
 * Declares the queue on its first use; from then on this costs two map look-ups. Throws 422 when the
 * queue is paused or drains, and the refusal of `queueRefusal` when it cannot be declared.
 */
export async function requireQueue(deps: Deps, queue: string): Promise<void> {
  requireNotPaused(deps, queue)
  requireNotDraining(deps, queue)
  if (deps.broker.isDeclared(queue)) return
  const outcome = await deps.broker.ensureQueue(queue)
  if (outcome !== 'ready') throw queueRefusal(queue, outcome)
}

/**
 * Withdraws the job and throws why its publish failed. Returns when the job could not be withdrawn because
 * a consumer was faster than the confirm: the job is being worked on, so PUSH answers 201.
 */
async function refuseUnlessStarted(deps: Deps, sent: Sent, key: string | undefined): Promise<void> {
  const { row, outcome } = sent
  if (!isFailure(outcome) || row.outbox === null) return
  // The row owes its job message until the withdrawal is committed. Without this mark the relay could publish
  // the message of a job that is being refused.
  deps.jobMessages.sending.add(row.id)
  const isWithdrawn = await deps.ledger
    .withdraw(row.id, row.outbox, key)
    .finally(() => deps.jobMessages.sending.delete(row.id))
  await noteWithdrawal(deps, sent, isWithdrawn)
  if (!isWithdrawn) return
  deps.events.drop(row.id)
  throw sendRefusal(deps, row, outcome)
}
