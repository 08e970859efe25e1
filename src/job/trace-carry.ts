import type { Carry } from './job.ts'
import type { PushRequest } from './request.ts'
import { isTraceparent, isTracestate, traceIdOf } from './traceparent.ts'

/** What came with a PUSH beside its body. */
export interface TraceContext {
  traceparent?: string
  tracestate?: string
  idempotencyKey?: string
}

/** `meta.traceparent` wins over the request's header (ojs-digest §15.2: "only if absent"). */
export function traceOf(request: PushRequest, context: TraceContext): Carry {
  const meta = metaOf(request)
  const own = text(meta['traceparent'])
  const isOwn = own !== undefined && isTraceparent(own)
  const traceparent = isOwn ? own : context.traceparent
  const tracestate = isOwn ? ownTracestate(meta) : context.tracestate
  const traceId = traceparent && traceIdOf(traceparent)
  const correlationId = text(meta['correlation_id']) ?? traceId ?? text(meta['trace_id'])
  return {
    ...(traceparent && { traceparent }),
    ...(tracestate && { tracestate }),
    ...(correlationId && { correlationId }),
    ...(context.idempotencyKey && { idempotencyKey: context.idempotencyKey }),
  }
}

function ownTracestate(meta: Record<string, unknown>): string | undefined {
  const own = text(meta['tracestate'])
  return own !== undefined && isTracestate(own) ? own : undefined
}

/** Where `meta` may stand, in the order in which `toNewJob` looks. */
function metaOf({ options, meta, metadata }: PushRequest): Record<string, unknown> {
  return options?.meta ?? meta ?? options?.metadata ?? metadata ?? {}
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
