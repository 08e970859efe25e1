import {
  createTraceState,
  isSpanContextValid,
  ProxyTracerProvider,
  type SpanContext,
  type Tracer,
  trace,
} from '@opentelemetry/api'

/** W3C Trace Context as it travels: in HTTP headers, in `meta`, in the headers of a message. */
export interface TraceContext {
  readonly traceparent?: string
  readonly tracestate?: string
}

const SCOPE = 'ojs-rabbitmq'

/**
 * Undefined as long as nobody has registered a tracer provider: spans would lead nowhere, and
 * making none is what keeps tracing free for those who do not trace. Asked each time (20 ns), since
 * a provider may come at any time.
 */
export function registeredTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer(SCOPE)
    : provider.getTracer(SCOPE)
}

/** Who the sender was; undefined where the `traceparent` is none. A bad `tracestate` is dropped. */
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

/** What to send along, so that the receiver's span becomes a child. Empty: there is no trace. */
export function traceContextOf(spanContext: SpanContext | undefined): TraceContext {
  if (spanContext === undefined || !isSpanContextValid(spanContext)) return {}
  const { traceId, spanId, traceFlags, traceState } = spanContext
  const tracestate = traceState?.serialize() ?? ''
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    ...(tracestate !== '' && { tracestate }),
  }
}
