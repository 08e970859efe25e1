import { context, type SpanContext, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  type TracerConfig,
} from '@opentelemetry/sdk-trace-base'
import { vi } from 'vitest'

/** The real OpenTelemetry SDK, registered for this process, as a program with tracing does it. */
export class Spans {
  readonly #exporter = new InMemorySpanExporter()
  readonly #provider: BasicTracerProvider

  constructor(config: TracerConfig = {}) {
    const spanProcessors = [new SimpleSpanProcessor(this.#exporter)]
    this.#provider = new BasicTracerProvider({ spanProcessors, ...config })
  }

  /** Spans are recorded from now on. */
  register(): void {
    const manager = new AsyncLocalStorageContextManager().enable()
    if (!context.setGlobalContextManager(manager)) throw new Error('there was a context manager')
    if (!trace.setGlobalTracerProvider(this.#provider)) throw new Error('there was a provider')
  }

  unregister(): void {
    trace.disable()
    context.disable()
  }

  clear(): void {
    this.#exporter.reset()
  }

  /** The spans that have ended, in the order of their starts. */
  all(name?: string): ReadableSpan[] {
    const spans = this.#exporter.getFinishedSpans()
    return spans
      .filter((span) => name === undefined || span.name === name)
      .sort((a, b) => nanos(a) - nanos(b))
  }

  /** Waits until `count` spans of that name have ended. */
  async ended(name: string, count = 1): Promise<ReadableSpan[]> {
    const enough = () => {
      const spans = this.all(name)
      if (spans.length < count) throw new Error(`${spans.length} of ${count} spans: ${name}`)
      return spans
    }
    return await vi.waitFor(enough, { timeout: 15_000 })
  }

  async one(name: string): Promise<ReadableSpan> {
    const [span, ...more] = await this.ended(name)
    if (span === undefined || more.length > 0) throw new Error(`not one span: ${name}`)
    return span
  }
}

/** The text of a span context in the headers of a message. */
export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags}`
}

function nanos({ startTime: [seconds, rest] }: ReadableSpan): number {
  return seconds * 1e9 + rest
}
