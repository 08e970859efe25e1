/** The gateway's OpenTelemetry spans; nothing without a registered provider. */
import {
  type Attributes,
  type Context,
  context,
  type Link,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { messageOf, OjsError } from '../errors.ts'
import type { JobRow } from '../job/job.ts'
import {
  registeredTracer,
  remoteSpanContext,
  type TraceContext,
  traceContextOf,
} from '../sdk/trace-context.ts'

/**
 * The gateway's spans (OJS observability; seed 002 §12.2), through `@opentelemetry/api` only: they go to the
 * tracer provider that the process was started with. Without one every function here just calls `work`, and
 * the context of a request is passed on as it came.
 */

const COMMON: Attributes = { 'messaging.system': 'ojs', 'ojs.backend.type': 'rabbitmq' }

/** A PUSH, or a batch of them. */
interface Enqueueing {
  name: 'enqueue' | 'enqueue_batch'
  /** Undefined: a batch for several queues, or for one that is not known yet. */
  queue: string | undefined
  /** The parent of the span; if empty, the active span is. */
  parent: TraceContext
}

/**
 * Runs `work` in the span `{queue} enqueue`, PRODUCER. `work` gets the trace context to send with the jobs:
 * that of the new span, or `parent` if nothing is traced.
 */
export function producing<T extends Produced>(
  { name, queue, parent }: Enqueueing,
  work: (sent: TraceContext) => Promise<T>,
): Promise<T> {
  const tracer = registeredTracer()
  if (tracer === undefined) return work(parent)
  const step = {
    name: spanName(queue, name),
    kind: SpanKind.PRODUCER,
    parent: contextOf(parent),
    attributes: { ...COMMON, 'messaging.operation.type': 'publish', ...destination(queue) },
  }
  return inSpan(tracer, step, async (span) => {
    const sent = traceContextOf(span.spanContext())
    const stored = await work(sent.traceparent === undefined ? parent : sent)
    span.setAttributes(
      'job' in stored ? publishedJob(stored.job) : publishedBatch(span, stored.jobs),
    )
    return stored
  })
}

type Produced = { job: JobRow } | { jobs: readonly JobRow[] }

/** What a FETCH asked for. */
interface Fetching {
  queues: readonly string[]
  workerId: string | null | undefined
}

/** Runs `work` in the span `{queue} fetch`, CONSUMER, with a link to the producer of each job. */
export function fetching(
  { queues, workerId }: Fetching,
  from: TraceContext,
  work: () => Promise<JobRow[]>,
): Promise<JobRow[]> {
  const tracer = registeredTracer()
  if (tracer === undefined) return work()
  const queue = queues.length === 1 ? queues[0] : undefined
  const step = {
    name: spanName(queue, 'fetch'),
    kind: SpanKind.CONSUMER,
    parent: contextOf(from),
    attributes: {
      ...COMMON,
      'messaging.operation.type': 'receive',
      ...destination(queue),
      'ojs.worker.id': workerId ?? undefined,
    },
  }
  return inSpan(tracer, step, async (span) => {
    const jobs = await work()
    span.setAttribute('messaging.batch.message_count', jobs.length)
    const [first] = jobs
    if (first === undefined) span.setStatus({ code: SpanStatusCode.OK })
    else if (jobs.length === 1) span.setAttributes(jobAttributes(first))
    span.addLinks(jobs.flatMap(linkTo))
    return jobs
  })
}

type Verb = 'ojs.ack' | 'ojs.nack' | 'ojs.cancel' | 'ojs.get_job'

/** Runs `work` in a CLIENT span: the vocabulary treats these verbs as calls of the backend. */
export function traced<T extends JobRow | { job: JobRow }>(
  name: Verb,
  from: TraceContext,
  work: () => T | Promise<T>,
): T | Promise<T> {
  const tracer = registeredTracer()
  if (tracer === undefined) return work()
  const step = { name, kind: SpanKind.CLIENT, parent: contextOf(from), attributes: COMMON }
  return inSpan(tracer, step, async (span) => {
    const result = await work()
    const job = jobIn(result)
    span.setAttributes(jobAttributes(job))
    if (name === 'ojs.cancel') span.setStatus({ code: SpanStatusCode.OK })
    if (name === 'ojs.nack') markFailed(span, job)
    return result
  })
}

function jobIn(result: JobRow | { job: JobRow }): JobRow {
  return 'job' in result ? result.job : result
}

/**
 * Runs a pass of a service in an INTERNAL span. It is the root of a trace, because timers inherit the context
 * of the code that set them. `work` resolves with the number of its jobs. Not for passes that find nothing to
 * do: there are 35 of those a second.
 */
export function systemPass(
  name: 'ojs.scheduler.poll' | 'ojs.reaper.check' | 'ojs.cron.trigger',
  work: () => Promise<number>,
): Promise<number> {
  const tracer = registeredTracer()
  if (tracer === undefined) return work()
  const step = { name, parent: context.active(), root: true, attributes: COMMON }
  return inSpan(tracer, step, async (span) => {
    const jobs = await work()
    span.setAttribute('messaging.batch.message_count', jobs)
    return jobs
  })
}

/** The span `ojs.retry.evaluate`, INTERNAL: a child of the span that the attempt failed in. */
export function noteRetryDecision(job: JobRow, decision: 'retry' | 'discard'): void {
  const attributes = { ...jobAttributes(job), 'ojs.retry.decision': decision }
  registeredTracer()?.startSpan('ojs.retry.evaluate', { attributes }).end()
}

interface Step extends SpanOptions {
  name: string
  parent: Context
}

async function inSpan<T>(
  tracer: Tracer,
  { name, parent, ...options }: Step,
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const span = tracer.startSpan(name, options, parent)
  try {
    return await context.with(trace.setSpan(parent, span), work, undefined, span)
  } catch (error) {
    const type = error instanceof OjsError ? error.code : nameOf(error)
    const message = messageOf(error)
    fail(span, type, message)
    throw error
  } finally {
    span.end()
  }
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}

function fail(span: Span, type: string, message: string): void {
  span.setAttributes({ 'error.type': type, 'error.message': message })
  span.setStatus({ code: SpanStatusCode.ERROR, message })
}

/**
 * The parent context. If an instrumented HTTP server has a span between the caller's and this one, that span
 * is the parent, so that the tree stays whole.
 */
function contextOf(from: TraceContext): Context {
  const active = context.active()
  const remote = remoteSpanContext(from)
  if (remote === undefined) return active
  const isBelow = trace.getSpanContext(active)?.traceId === remote.traceId
  return isBelow ? active : trace.setSpanContext(active, remote)
}

function linkTo({ carry }: JobRow): Link[] {
  const producer = carry === null ? undefined : remoteSpanContext(carry)
  return producer === undefined ? [] : [{ context: producer }]
}

function spanName(queue: string | undefined, what: string): string {
  return queue === undefined ? what : `${queue} ${what}`
}

function destination(queue: string | undefined): Attributes {
  return { 'messaging.destination.name': queue, 'ojs.job.queue': queue }
}

function jobAttributes(job: JobRow): Attributes {
  return {
    ...COMMON,
    ...destination(job.queue),
    'messaging.message.id': job.id,
    'ojs.job.id': job.id,
    'ojs.job.type': job.type,
    'ojs.job.attempt': job.attempt,
    'ojs.job.state': job.state,
    'ojs.job.priority': job.priority,
    'ojs.job.scheduled_at': job.carry?.scheduledAt,
    // An empty name: no worker has the job (`isOwedAgain`).
    'ojs.worker.id': job.workerId || undefined,
  }
}

function publishedJob(job: JobRow): Attributes {
  const size = Buffer.byteLength(job.envelope)
  return { ...jobAttributes(job), 'messaging.message.body.size': size }
}

function publishedBatch(span: Span, jobs: readonly JobRow[]): Attributes {
  const queues = new Set(jobs.map((job) => job.queue))
  const [queue] = queues.size === 1 ? queues : []
  span.updateName(spanName(queue, 'enqueue_batch'))
  return { ...destination(queue), 'messaging.batch.message_count': jobs.length }
}

/** Marks the span as failed if the job failed, although its report succeeded (OJS observability). */
function markFailed(span: Span, job: JobRow): void {
  if (job.state !== 'retryable' && job.state !== 'discarded') return
  const error: { code?: unknown; message?: unknown } = JSON.parse(job.error ?? '{}')
  fail(span, String(error.code), String(error.message))
  span.setAttribute('ojs.job.error.attempt', job.attempt)
}
