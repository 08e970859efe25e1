import { publishRefusal, queueRefusal } from '../broker/refusals.ts'
import { requireTypeCase } from '../dialect.ts'
import { OjsError } from '../errors.ts'
import { toNewJob } from '../job/envelope.ts'
import { freshRow, type JobRow, type NewJob } from '../job/job.ts'
import type { PushRequest } from '../job/request.ts'
import { enqueueing, sentWith, traceOf } from '../job/trace-carry.ts'
import { parsePush } from '../schemas/validator.ts'
import { producing } from '../telemetry/tracing.ts'
import { checkArgs } from './check-args.ts'
import type { Deps, RequestContext } from './deps.ts'
import { requireNotPaused } from './pause.ts'
import { requirePublishing } from './refusals.ts'
import { noteLostToken, type Sent, sendToken } from './send-token.ts'

/**
 * PUSH (seed 001 §7.1, seed 002 §5.1): stored, published, confirmed; then, and only then, the
 * answer. Throws `OjsError`: 400 invalid, 400 against its schema, 409 duplicate id, 413, 422 unsupported, 429 queue full,
 * 503 when RabbitMQ or the ledger cannot take it (nothing is kept then).
 */
export async function push(deps: Deps, body: unknown, context: RequestContext): Promise<JobRow> {
  const request = parsePush(body)
  checkArgs(deps, request)
  return await producing(enqueueing(request, context), (sent) =>
    store(deps, newJob(deps, request, sentWith(context, sent)), context),
  )
}

async function store(deps: Deps, job: NewJob, context: RequestContext): Promise<JobRow> {
  requirePublishing(deps)
  await requireQueue(deps, job.queue)
  const row = await insert(deps, job)
  if (row.outbox === null) {
    deps.events.emit({ type: storedEvent(row), job: row, requestId: context.requestId })
    return row
  }
  const sent = await sendToken(deps, row)
  if (sent.outcome !== 'confirmed' && (await isWithdrawn(deps, sent))) {
    throw publishRefusal(job.queue, sent.outcome)
  }
  deps.events.emit({ type: 'job.enqueued', job: row, requestId: context.requestId })
  return row
}

/** A job that needs no token yet: `scheduled`, or `pending` until somebody activates it. */
export function storedEvent(row: JobRow): 'job.enqueued' | 'job.scheduled' | 'job.staged' {
  if (row.state === 'scheduled') return 'job.scheduled'
  return row.state === 'pending' ? 'job.staged' : 'job.enqueued'
}

/** With defaults; not stored. Throws `OjsError`. */
export function newJob(deps: Deps, request: PushRequest, context: RequestContext): NewJob {
  requireTypeCase(deps.settings.dialect, request.type)
  return toNewJob(request, {
    newId: deps.newId,
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    timeoutMs: deps.settings.timeoutMs,
    prefix: deps.settings.prefix,
    carry: traceOf(request, context),
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

async function insert(deps: Deps, job: NewJob): Promise<JobRow> {
  const inserted = await deps.ledger.insert(job, deps.clock.now())
  if (inserted.outcome === 'inserted') return freshRow(job, inserted)
  throw new OjsError('duplicate', `A job with the id '${job.id}' already exists.`, {
    details: { existing_job_id: job.id, field: 'id' },
  })
}

/** False: a consumer was faster than the confirm. The job is being worked on, which is a 201. */
async function isWithdrawn(deps: Deps, sent: Sent): Promise<boolean> {
  const { row } = sent
  if (row.outbox === null || !(await deps.ledger.withdraw(row.id, row.outbox))) return false
  noteLostToken(deps, sent)
  return true
}
