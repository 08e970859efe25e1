import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { OjsError } from '../../src/errors.ts'
import type { JobRow } from '../../src/job/job.ts'
import {
  fetching,
  noteRetryDecision,
  producing,
  systemPass,
  traced,
} from '../../src/telemetry/tracing.ts'
import { jobRow } from '../http/job-rows.ts'
import { Spans, traceparentOf } from '../support/spans.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const FROM = { traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01` }
const COMMON = { 'messaging.system': 'ojs', 'ojs.backend.type': 'rabbitmq' }
const OK = { code: SpanStatusCode.OK }
const UNSET = { code: SpanStatusCode.UNSET }

let spans: Spans
beforeEach(() => {
  spans = new Spans()
  spans.register()
})
afterEach(() => spans.unregister())

const row = (change: Partial<JobRow> = {}) =>
  jobRow({ id: 'j', queue: 'q', type: 't', priority: 7, attempt: 2, state: 'active', ...change })

const on = (queue: string) => ({ 'messaging.destination.name': queue, 'ojs.job.queue': queue })

/** The attributes of a span about `row()`. */
const OF_JOB = {
  ...COMMON,
  ...on('q'),
  'messaging.message.id': 'j',
  'ojs.job.id': 'j',
  'ojs.job.type': 't',
  'ojs.job.attempt': 2,
  'ojs.job.state': 'active',
  'ojs.job.priority': 7,
}

/** The only span that was exported. */
function onlySpan() {
  const [span, ...more] = spans.all()
  if (span === undefined || more.length > 0) throw new Error(`${more.length + 1} spans`)
  const { name, kind, attributes, status, parentSpanContext: parent } = span
  return { name, kind, attributes: { ...attributes }, status, parent, links: span.links }
}

describe('a span of enqueueing', () => {
  const enqueue = (jobs: JobRow) =>
    producing({ name: 'enqueue', queue: 'q', parent: FROM }, async () => ({ job: jobs }))

  it('describes the job and is a child of the sender', async () => {
    const job = row({ envelope: '{"ü":1}', workerId: 'w' })
    const carried = { ...job, carry: { scheduledAt: '2026-01-01T00:00:00Z' } }
    expect(await enqueue(carried)).toEqual({ job: carried })
    expect(onlySpan()).toEqual({
      name: 'q enqueue',
      kind: SpanKind.PRODUCER,
      attributes: {
        ...OF_JOB,
        'messaging.operation.type': 'publish',
        'messaging.message.body.size': 8,
        'ojs.job.scheduled_at': '2026-01-01T00:00:00Z',
        'ojs.worker.id': 'w',
      },
      status: UNSET,
      parent: expect.objectContaining({ traceId: TRACE_ID, spanId: 'b7ad6b7169203331' }),
      links: [],
    })
  })

  it('has no worker id if that of the row is empty, as after the loss of a queue', async () => {
    await enqueue(row({ workerId: '' }))
    expect(onlySpan().attributes['ojs.worker.id']).toBeUndefined()
  })

  it.each([
    ['q', ['q', 'q'], 'q enqueue_batch', on('q')],
    [undefined, ['q', 'q'], 'q enqueue_batch', on('q')],
    [undefined, ['q', 'r'], 'enqueue_batch', {}],
  ])(
    'of a batch has the number of jobs, and their queue if all have the same: %s, %j',
    async (...row) => {
      const [queue, queues, name, destination] = row
      const jobs = queues.map((each) => jobRow({ queue: each }))
      const parent = {}
      const stored = { jobs }
      const step = { name: 'enqueue_batch', queue, parent } as const
      expect(await producing(step, async () => stored)).toBe(stored)
      expect(onlySpan()).toMatchObject({ name, kind: SpanKind.PRODUCER, parent: undefined })
      expect(onlySpan().attributes).toEqual({
        ...COMMON,
        ...destination,
        'messaging.operation.type': 'publish',
        'messaging.batch.message_count': 2,
      })
    },
  )

  it('of a batch finds the jobs in a result with other members', async () => {
    const stored = { jobs: [row()] }
    const step = { name: 'enqueue_batch', queue: undefined, parent: {} } as const
    expect(await producing(step, async () => stored)).toBe(stored)
    expect(onlySpan().attributes).toMatchObject({ 'messaging.batch.message_count': 1 })
  })

  it('that is refused has the error and the queue', async () => {
    const error = new OjsError('backend_error', 'not now')
    const refused = producing({ name: 'enqueue', queue: 'q', parent: FROM }, () =>
      Promise.reject(error),
    )
    await expect(refused).rejects.toBe(error)
    expect(onlySpan().attributes).toEqual({
      ...COMMON,
      ...on('q'),
      'messaging.operation.type': 'publish',
      'error.type': 'backend_error',
      'error.message': 'not now',
    })
  })

  it('passes its own context to the operation', async () => {
    let sent: object = {}
    await producing({ name: 'enqueue', queue: 'q', parent: FROM }, async (given) => {
      sent = given
      return { job: row() }
    })
    const [span] = spans.all()
    expect(sent).toEqual({ traceparent: span && traceparentOf(span.spanContext()) })
  })
})

describe('a span of a fetch', () => {
  const fetch = (queues: string[], jobs: JobRow[], workerId: string | null = 'w') =>
    fetching({ queues, workerId }, FROM, async () => jobs)

  const asked = { ...COMMON, 'messaging.operation.type': 'receive', 'ojs.worker.id': 'w' }
  const count = (jobs: number) => ({ 'messaging.batch.message_count': jobs })

  it('has status ok and a count of 0 if no job was found', async () => {
    expect(await fetch(['q'], [])).toEqual([])
    expect(onlySpan()).toMatchObject({
      name: 'q fetch',
      kind: SpanKind.CONSUMER,
      status: OK,
      links: [],
    })
    expect(onlySpan().parent).toMatchObject({ traceId: TRACE_ID })
    expect(onlySpan().attributes).toEqual({ ...asked, ...on('q'), ...count(0) })
  })

  it('describes the job if it is a single one', async () => {
    await fetch(['p', 'q'], [row({ workerId: 'w' })])
    expect(onlySpan()).toMatchObject({ name: 'fetch', status: UNSET })
    expect(onlySpan().attributes).toEqual({ ...asked, ...OF_JOB, ...count(1) })
  })

  it('has only the count for several jobs, and links to their senders', async () => {
    const sent = [row({ carry: FROM }), row({ carry: {} }), row({ carry: null })]
    await fetch(['p', 'q'], sent, null)
    const { 'ojs.worker.id': _, ...rest } = asked
    expect(onlySpan().attributes).toEqual({ ...rest, ...count(3) })
    expect(onlySpan()).toMatchObject({ status: UNSET })
    expect(onlySpan().links.map((link) => link.context.spanId)).toEqual(['b7ad6b7169203331'])
  })
})

describe('a span of an operation on a job', () => {
  const doing = (name: Parameters<typeof traced>[0], job: JobRow) =>
    traced(name, FROM, () => ({ job }))

  it.each([
    ['ojs.ack', UNSET],
    ['ojs.get_job', UNSET],
    ['ojs.cancel', OK],
  ] as const)('describes the job: %s', async (name, status) => {
    const job = row()
    expect(await doing(name, job)).toEqual({ job })
    expect(onlySpan()).toMatchObject({ name, kind: SpanKind.CLIENT, status, links: [] })
    expect(onlySpan().attributes).toEqual(OF_JOB)
    expect(onlySpan().parent).toMatchObject({ traceId: TRACE_ID })
  })

  it.each(['retryable', 'discarded'] as const)(
    'is an error for a NACK that leaves the job %s',
    async (state) => {
      await doing('ojs.nack', row({ state, error: '{"code":"boom","message":"it went off"}' }))
      expect(onlySpan().status).toEqual({ code: SpanStatusCode.ERROR, message: 'it went off' })
      expect(onlySpan().attributes).toEqual({
        ...OF_JOB,
        'ojs.job.state': state,
        'error.type': 'boom',
        'error.message': 'it went off',
        'ojs.job.error.attempt': 2,
      })
    },
  )

  it('is no error for a job that was given back, or only read', async () => {
    const error = '{"code":"boom","message":"it went off"}'
    await doing('ojs.nack', row({ state: 'available', error }))
    expect(onlySpan().status).toEqual(UNSET)
    spans.clear()
    await doing('ojs.get_job', row({ state: 'discarded', error }))
    expect(onlySpan().status).toEqual(UNSET)
  })

  it.each<[unknown, string, string]>([
    [new OjsError('not_found', 'gone'), 'not_found', 'gone'],
    [new RangeError('too far'), 'RangeError', 'too far'],
    ['thrown', 'string', 'thrown'],
  ])('is an error for a refusal, which is thrown on: %s', async (error, type, message) => {
    const refused = traced('ojs.ack', FROM, () => Promise.reject(error))
    await expect(refused).rejects.toBe(error)
    expect(onlySpan().status).toEqual({ code: SpanStatusCode.ERROR, message })
    expect(onlySpan().attributes).toEqual({
      ...COMMON,
      'error.type': type,
      'error.message': message,
    })
  })
})

describe('the parent of a span', () => {
  const inside = <T>(work: () => Promise<T>) =>
    trace.getTracer('server').startActiveSpan('server', async (span) => {
      const done = await work()
      span.end()
      return [done, span.spanContext()] as const
    })
  const get = (from: object) => async () =>
    void (await traced('ojs.get_job', from, () => ({ job: row() })))
  const parentOf = (name: string) => spans.all(name)[0]?.parentSpanContext

  it('is the active span if the request has no traceparent', async () => {
    const [, around] = await inside(get({}))
    expect(parentOf('ojs.get_job')).toMatchObject({ spanId: around.spanId })
  })

  it('is the active span if the request is of the same trace', async () => {
    const [, around] = await inside(async () => {
      const span = trace.getSpan(context.active())?.spanContext()
      await get(span ? { traceparent: `00-${span.traceId}-b7ad6b7169203331-01` } : {})()
    })
    expect(parentOf('ojs.get_job')).toMatchObject({ spanId: around.spanId })
  })

  it('is the sender if the active span is of another trace', async () => {
    await inside(get(FROM))
    expect(parentOf('ojs.get_job')).toMatchObject({ traceId: TRACE_ID })
  })

  it('is ojs.nack for the retry evaluation within it', async () => {
    await traced('ojs.nack', FROM, async () => {
      noteRetryDecision(row(), 'retry')
      return { job: row() }
    })
    const [nack] = spans.all('ojs.nack')
    const [retry] = spans.all('ojs.retry.evaluate')
    expect(retry?.parentSpanContext?.spanId).toBe(nack?.spanContext().spanId)
    expect(retry?.kind).toBe(SpanKind.INTERNAL)
    expect(retry?.attributes).toEqual({ ...OF_JOB, 'ojs.retry.decision': 'retry' })
  })

  it('is absent for a pass that a timer started', async () => {
    const [jobs] = await inside(() => systemPass('ojs.reaper.check', async () => 3))
    expect(jobs).toBe(3)
    const [pass] = spans.all('ojs.reaper.check')
    expect(pass).toMatchObject({ kind: SpanKind.INTERNAL, parentSpanContext: undefined })
    expect(pass?.attributes).toEqual({ ...COMMON, 'messaging.batch.message_count': 3 })
  })
})

it('all traced operations run without spans if there is no tracer provider', async () => {
  spans.unregister()
  const job = row()
  const sent: unknown[] = []
  const produced = await producing({ name: 'enqueue', queue: 'q', parent: FROM }, async (given) => {
    sent.push(given)
    return { job }
  })
  expect([produced, sent]).toEqual([{ job }, [FROM]])
  expect(await fetching({ queues: ['q'], workerId: 'w' }, FROM, async () => [job])).toEqual([job])
  expect(await traced('ojs.ack', FROM, () => ({ job }))).toEqual({ job })
  expect(await systemPass('ojs.cron.trigger', async () => 2)).toBe(2)
  noteRetryDecision(job, 'discard')
  expect(spans.all()).toEqual([])
})
