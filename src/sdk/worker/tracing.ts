/** OpenTelemetry in the SDK: the span of an execution, and the context that a call sends. */

/**
 * Tracing for programs that have registered OpenTelemetry, through `@opentelemetry/api` only (seed 002 §12.2;
 * OJS observability). All others pay only for the check whether a provider is registered.
 */

import {
  type Attributes,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import {
  registeredTracer,
  remoteSpanContext,
  type TraceContext,
  traceContextOf,
} from '../trace-context.ts'
import type { CallOptions } from '../transport/request.ts'
import type { JobError, Lease } from './source.ts'

/** Adds the active span's context to the headers of a call, unless the caller set these headers itself. */
export function withActiveTrace(call: CallOptions): CallOptions {
  const active = traceContextOf(trace.getActiveSpan()?.spanContext())
  return active.traceparent === undefined
    ? call
    : { ...call, headers: { ...active, ...call.headers } }
}

/** The producer's trace context. Over HTTP it is in `meta`; a native producer may put it there, too. */
export function traceOfLease({ job, traceparent, tracestate }: Lease): TraceContext {
  if (traceparent !== undefined) {
    return { traceparent, ...(tracestate !== undefined && { tracestate }) }
  }
  const { traceparent: inMeta, tracestate: stateInMeta } = job.meta ?? {}
  if (typeof inMeta !== 'string') return {}
  return {
    traceparent: inMeta,
    ...(typeof stateInMeta === 'string' && { tracestate: stateInMeta }),
  }
}

/** How an execution ended for the worker; whether the server then retries the job is not known here. */
export type ProcessEnd = 'completed' | 'cancelled' | 'released' | JobError

/** The span of one execution. */
export interface ProcessSpan {
  /** Runs `work` with the span as the active one. */
  run<T>(work: () => T): T
  /** Only the first call counts. */
  end(how: ProcessEnd): void
}

/**
 * Starts the span `{queue} process`, CONSUMER: a child of the producer's span, with a link to it as well,
 * because some tools follow only links. Undefined if no tracer provider is registered.
 */
export function startProcess(
  lease: Lease,
  producer: TraceContext,
  workerId: string,
): ProcessSpan | undefined {
  const tracer = registeredTracer()
  if (tracer === undefined) return undefined
  const remote = remoteSpanContext(producer)
  // The active span is never the parent: the program that started the worker has nothing to do with the job.
  const parent = remote ? trace.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT
  const options = {
    kind: SpanKind.CONSUMER,
    attributes: attributesOf(lease, workerId),
    ...(remote && { links: [{ context: remote }] }),
  }
  const span = tracer.startSpan(`${lease.job.queue} process`, options, parent)
  const inside = trace.setSpan(parent, span)
  return {
    run: (work) => context.with(inside, work),
    end(how) {
      if (!span.isRecording()) return
      conclude(span, how, lease.attempt)
      span.end()
    },
  }
}

function attributesOf({ job, attempt }: Lease, workerId: string): Attributes {
  return {
    'messaging.system': 'ojs',
    'messaging.operation.type': 'process',
    'messaging.destination.name': job.queue,
    'messaging.message.id': job.id,
    'ojs.job.id': job.id,
    'ojs.job.type': job.type,
    'ojs.job.queue': job.queue,
    'ojs.job.attempt': attempt,
    'ojs.job.priority': job.priority,
    'ojs.job.scheduled_at': job.scheduled_at,
    'ojs.worker.id': workerId,
  }
}

function conclude(span: Span, how: ProcessEnd, attempt: number): void {
  if (typeof how !== 'string') {
    const { code, type = code, message, details } = how
    const stack = details?.['stack']
    span.setAttributes({
      'error.type': type,
      'error.message': message,
      'ojs.job.error.attempt': attempt,
    })
    span.recordException({ name: type, message, ...(typeof stack === 'string' && { stack }) })
    span.setStatus({ code: SpanStatusCode.ERROR, message })
  } else if (how !== 'released') {
    span.setAttribute('ojs.job.state', how)
    span.setStatus({ code: SpanStatusCode.OK })
  }
}
