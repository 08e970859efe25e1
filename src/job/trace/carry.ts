/** What a job's message carries of its PUSH: the trace of the request or of `meta`. */
import { metaOf } from '../envelope.ts'
import type { Carry } from '../job.ts'
import type { PushRequest } from '../request.ts'
import { isTraceparent, isTracestate, traceIdOf } from './traceparent.ts'

type Trace = Pick<Carry, 'traceparent' | 'tracestate'>

/** The parts of a PUSH beside its body that its job message carries. */
export interface PushContext extends Trace {
  idempotencyKey?: string
}

/** A job's carry. `meta.traceparent` wins over the request's header (OJS observability: "only if absent"). */
export function traceOf(request: PushRequest, context: PushContext): Carry {
  const meta = metaOf(request)
  const { traceparent, tracestate } = ownTrace(request) ?? context
  const traceId = traceparent && traceIdOf(traceparent)
  const correlationId = text(meta['correlation_id']) ?? traceId ?? text(meta['trace_id'])
  // Without a spread: this runs for every job.
  const carry: Carry = {}
  if (traceparent) carry.traceparent = traceparent
  if (tracestate) carry.tracestate = tracestate
  if (correlationId) carry.correlationId = correlationId
  if (context.idempotencyKey) carry.idempotencyKey = context.idempotencyKey
  return carry
}

/**
 * Adds to the carry of a native message the trace that only its body names: the gateway publishes the job
 * messages of the next attempts, and their headers carry all that is known (seed 002 §6.2, §12.2).
 */
export function withBodyTrace(carry: Carry, request: PushRequest): Carry {
  if (carry.traceparent === undefined) return { ...traceOf(request, {}), ...carry }
  const correlationId = carry.correlationId ?? text(metaOf(request)['correlation_id'])
  return correlationId === undefined ? carry : { ...carry, correlationId }
}

/** The name, queue and parent of a PUSH's span. */
export function enqueueing(request: PushRequest, context: Trace) {
  const queue = request.options?.queue ?? request.queue ?? 'default'
  return { name: 'enqueue', queue, parent: ownTrace(request) ?? context } as const
}

/** The context that jobs carry when the gateway's own span is their parent instead of the caller's. */
export function sentWith<T extends PushContext>(context: T, { traceparent, tracestate }: Trace): T {
  if (traceparent === context.traceparent) return context
  const { traceparent: _, tracestate: __, ...rest } = context
  return { ...rest, ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) } as T
}

/** The trace id of a context, for log lines and correlation. */
export function traceIdIn({ traceparent }: Trace): string | undefined {
  return traceparent === undefined ? undefined : traceIdOf(traceparent)
}

/** The trace that the producer wrote into `meta` itself; it is passed on unmodified. */
function ownTrace(request: PushRequest): Trace | undefined {
  const meta = metaOf(request)
  const traceparent = text(meta['traceparent'])
  if (traceparent === undefined || !isTraceparent(traceparent)) return undefined
  const tracestate = text(meta['tracestate'])
  const isUsable = tracestate !== undefined && isTracestate(tracestate)
  return isUsable ? { traceparent, tracestate } : { traceparent }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
