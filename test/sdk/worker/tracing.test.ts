import { context, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api'
import { AlwaysOffSampler } from '@opentelemetry/sdk-trace-base'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  chain,
  type Handler,
  type JobContext,
  OJSClient,
  runInline,
} from '../../../src/sdk/index.ts'
import { remoteSpanContext, traceContextOf } from '../../../src/sdk/trace-context.ts'
import { Spans, traceparentOf } from '../../support/spans.ts'
import { mockTransport, stored } from '../mock-transport.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const PRODUCER = `00-${TRACE_ID}-b7ad6b7169203331-01`

let spans: Spans

beforeEach(() => {
  spans = new Spans()
  spans.register()
})
afterEach(() => spans.unregister())

describe('trace context', () => {
  test.each([PRODUCER, PRODUCER.replace(/01$/, '00'), `01-${PRODUCER.slice(3)}-from-the-future`])(
    'is read from traceparent %s',
    (traceparent) => {
      const read = remoteSpanContext({ traceparent, tracestate: 'a=1,b=2' })
      expect(read).toMatchObject({ traceId: TRACE_ID, spanId: 'b7ad6b7169203331', isRemote: true })
      expect(read?.traceFlags).toBe(traceparent === `${PRODUCER.slice(0, -2)}00` ? 0 : 1)
      expect(read?.traceState?.serialize()).toBe('a=1,b=2')
    },
  )

  test.each([
    '',
    'junk',
    TRACE_ID,
    `${PRODUCER}-more`,
    `ff${PRODUCER.slice(2)}`,
    PRODUCER.replace(TRACE_ID, '0'.repeat(32)),
    PRODUCER.replace('b7ad6b7169203331', '0'.repeat(16)),
    PRODUCER.slice(0, -2),
    PRODUCER.replace(/01$/, 'zz'),
  ])('is not read from the invalid traceparent "%s"', (traceparent) => {
    expect(remoteSpanContext({ traceparent })).toBeUndefined()
  })

  test('is written exactly as it was read', () => {
    const both = { traceparent: PRODUCER, tracestate: 'a=1,b=2' }
    expect(traceContextOf(remoteSpanContext(both))).toEqual(both)
    expect(traceContextOf(undefined)).toEqual({})
  })
})

describe('a client with tracing', () => {
  const answering = () => mockTransport((request) => ({ status: 201, body: bodyFor(request) }))
  const bodyFor = (request: Parameters<typeof stored>[0]) => {
    const { jobs } = request.body as { jobs?: object[] }
    const items = jobs?.map((body) => stored({ ...request, body }))
    return items ? { jobs: items } : { job: stored(request) }
  }

  test("sends the active span's traceparent with jobs, unless the caller's headers have one", async () => {
    const transport = answering()
    const client = new OJSClient({ transport })
    const traceparent = await trace.getTracer('app').startActiveSpan('checkout', async (span) => {
      await client.enqueue('a')
      await client.enqueueBatch([{ type: 'a' }])
      await client.enqueue('a', [], {}, { headers: { traceparent: PRODUCER, 'x-own': '1' } })
      return traceparentOf(span.spanContext())
    })
    expect(transport.requests.map(({ headers }) => headers)).toEqual([
      { traceparent },
      { traceparent },
      { traceparent: PRODUCER, 'x-own': '1' },
    ])
  })

  test("sends the active span's traceparent with a workflow", async () => {
    const transport = mockTransport(() => ({ status: 201, body: { workflow: { id: 'w' } } }))
    const client = new OJSClient({ transport })
    const traceparent = await trace.getTracer('app').startActiveSpan('checkout', async (span) => {
      await client.workflow(chain({ type: 'a' }), { headers: { 'x-own': '1' } })
      return traceparentOf(span.spanContext())
    })
    expect(transport.only.headers).toEqual({ traceparent, 'x-own': '1' })
  })

  test('sends no header without an active span', async () => {
    const transport = answering()
    await new OJSClient({ transport }).enqueue('a')
    expect(transport.only).not.toHaveProperty('headers')
  })
})

describe('the span of an execution', () => {
  const job = { type: 'a', meta: { traceparent: PRODUCER } }
  const run = (handler: Handler, more: object = {}) =>
    runInline({ a: handler }, { ...job, ...more })

  test("is a child of the producer's span, whatever span is active around the worker", async () => {
    await trace.getTracer('app').startActiveSpan('start of the worker', async (outer) => {
      await run(() => undefined)
      outer.end()
    })
    const process = await spans.one('default process')
    expect(process.spanContext().traceId).toBe(TRACE_ID)
    expect(process.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
    expect(process.links).toHaveLength(1)
  })

  test('starts a new trace if the job carries none', async () => {
    await trace
      .getTracer('app')
      .startActiveSpan('start of the worker', () => run(() => 1, { meta: {} }))
    const process = await spans.one('default process')
    expect(process.parentSpanContext).toBeUndefined()
    expect(process.links).toEqual([])
  })

  test('is active in the handler, also after an await', async () => {
    const resumed = new Promise<void>((resolve) => {
      setImmediate(resolve)
    })
    let seen: unknown
    await run(async () => {
      await resumed
      seen = trace.getSpanContext(context.active())?.spanId
    })
    expect((await spans.one('default process')).spanContext().spanId).toBe(seen)
  })

  test('leaves traceparent and tracestate of the producer readable for the handler', async () => {
    let seen: JobContext | undefined
    const meta = { traceparent: PRODUCER, tracestate: 'a=1' }
    await run(
      (ctx) => {
        seen = ctx
      },
      { meta },
    )
    expect(seen).toMatchObject(meta)
  })

  test('has status error if there is no handler', async () => {
    await run(() => 1, { type: 'unknown' })
    const { status, attributes } = await spans.one('default process')
    expect(status.code).toBe(SpanStatusCode.ERROR)
    expect(attributes['error.type']).toBe('NoHandlerError')
  })

  test('has status error at the timeout and ends before the handler does', async () => {
    let isEndedEarly = false
    await run(
      ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            isEndedEarly = spans.all('default process').length === 1
            resolve('too late')
          })
        }),
      { timeout_ms: 20 },
    )
    const { status, attributes } = await spans.one('default process')
    expect(isEndedEarly).toBe(true)
    expect(status.code).toBe(SpanStatusCode.ERROR)
    expect(attributes['error.type']).toBe('TimeoutError')
  })

  test('has status ok when the job is cancelled', async () => {
    const controller = new AbortController()
    const handlers = {
      a: ({ signal }: JobContext) => {
        controller.abort()
        signal.throwIfAborted()
      },
    }
    await runInline(handlers, job, { signal: controller.signal })
    const { status, attributes } = await spans.one('default process')
    expect(status.code).toBe(SpanStatusCode.OK)
    expect(attributes['ojs.job.state']).toBe('cancelled')
  })

  test('passes the flag "not sampled" on to the handler', async () => {
    spans.unregister()
    spans = new Spans({ sampler: new AlwaysOffSampler() })
    spans.register()
    let flags: number | undefined
    await run(() => {
      flags = trace.getActiveSpan()?.spanContext().traceFlags
    })
    expect(flags).toBe(TraceFlags.NONE)
    expect(spans.all()).toEqual([])
  })

  test('is absent without a tracer provider', async () => {
    spans.unregister()
    let active: unknown = 'unset'
    const outcome = await run(() => {
      active = trace.getActiveSpan()
      return 1
    })
    expect(outcome).toEqual({ state: 'completed', result: 1 })
    expect(active).toBeUndefined()
  })
})
