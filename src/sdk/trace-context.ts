/** W3C trace contexts, and the tracer if a program has registered one. */
import {
  createTraceState,
  isSpanContextValid,
  ProxyTracerProvider,
  type SpanContext,
  type Tracer,
  trace,
} from '@opentelemetry/api'

/** W3C Trace Context, as sent in HTTP headers, in `meta` and in the headers of messages. */
export interface TraceContext {
  readonly traceparent?: string
  readonly tracestate?: string
}

const SCOPE = 'ojs-rabbitmq'

/**
 * The tracer, or undefined as long as no tracer provider is registered. Without one, callers make no spans,
 * so that tracing costs nothing for programs that do not trace. Looked up each time (20 ns), because a
 * provider may be registered at any time.
 */
export function registeredTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer(SCOPE)
    : provider.getTracer(SCOPE)
}

/** The sender's span; undefined for a missing or invalid `traceparent`. Drops an invalid `tracestate`. */
export function remoteSpanContext({
  traceparent,
  tracestate,
}: TraceContext): SpanContext | undefined {
  if (traceparent === undefined) return undefined
  const [version = '', traceId = '', spanId = '', flags = '', ...rest] = traceparent.split('-')
  const isKnown = version === '00' ? rest.length === 0 : /^[0-9a-f]{2}$/.test(version)
  if (!isKnown || version === 'ff' || !/^[0-9a-f]{2}$/.test(flags)) return undefined
  const spanContext: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(tracestate !== undefined && { traceState: createTraceState(tracestate) }),
  }
  return isSpanContextValid(spanContext) ? spanContext : undefined
}

/** The context to send, so that the receiver's span becomes a child of this one. Empty: there is no trace. */
export function traceContextOf(spanContext: SpanContext | undefined): TraceContext {
  if (spanContext === undefined || !isSpanContextValid(spanContext)) return {}
  const { traceId, spanId, traceFlags, traceState } = spanContext
  const tracestate = traceState?.serialize() ?? ''
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    ...(tracestate !== '' && { tracestate }),
  }
}
