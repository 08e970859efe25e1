import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { gatewayForAll } from '../harness.ts'

const { gateway } = gatewayForAll()

interface Read {
  id?: string
  event?: string
  data: Record<string, unknown>
}

const ask = (method: string, path: string, body?: unknown) =>
  gateway.request(method, `/ojs/v1${path}`, body)

/** Opens a stream, and reads its events as they come. */
async function open(path: string, headers: Record<string, string> = {}, url = gateway.url) {
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const response = await fetch(`${url}/ojs/v1${path}`, { headers, signal: abort.signal })
  const events: Read[] = []
  const state = { text: '', isEnded: false }
  const read = async () => {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      state.text += decoder.decode(chunk, { stream: true })
      const frames = state.text.split('\n\n').slice(0, -1)
      events.splice(0, events.length, ...frames.flatMap(parsed))
    }
    state.isEnded = true
  }
  void read()
    .catch(() => {})
    .finally(() => {
      state.isEnded = true
    })
  const until = (isDone: () => boolean) => eventually(async () => isDone())
  return { response, events, state, until }
}

function parsed(frame: string): Read[] {
  const fields = new Map(frame.split('\n').map((line) => line.split(/: (.*)/s) as [string, string]))
  const data = fields.get('data')
  if (data === undefined) return []
  const [id, event] = [fields.get('id'), fields.get('event')]
  return [{ ...(id && { id }), ...(event && { event }), data: JSON.parse(data) }]
}

async function pushed(queue: string): Promise<string> {
  return (await ask('POST', '/jobs', { type: 'a', args: [], options: { queue } })).body.job.id
}

async function run(queue: string): Promise<string> {
  const id = await pushed(queue)
  await ask('POST', '/workers/fetch', { queues: [queue], worker_id: 'w', wait_ms: 20_000 })
  await ask('POST', '/workers/ack', { job_id: id, worker_id: 'w' })
  return id
}

const changes = (events: readonly Read[]) =>
  events.map(({ event, data }) => `${event} ${data['from']}>${data['to']}`)

test('the stream of a job has each change of its state, in order, and ends with the job', async () => {
  const id = await pushed('sse-job')
  const { response, events, until, state } = await open(`/jobs/${id}/events`)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  expect(response.headers.get('cache-control')).toBe('no-cache, no-transform')
  expect(response.headers.get('ojs-version')).toBe('1.0')
  expect(response.headers.get('x-request-id')).toMatch(/^req_/)
  await ask('POST', '/workers/fetch', { queues: ['sse-job'], worker_id: 'w', wait_ms: 20_000 })
  await ask('POST', '/workers/ack', { job_id: id, worker_id: 'w' })
  await until(() => state.isEnded)
  expect(state.text.startsWith('retry: 3000\n\n')).toBe(true)
  expect(changes(events)).toEqual([
    'job.state_changed available>active',
    'job.state_changed active>completed',
  ])
  expect(events[0]).toMatchObject({
    id: expect.stringMatching(/^evt_/),
    data: { event: 'job.state_changed', job_id: id, queue: 'sse-job', type: 'a', attempt: 1 },
  })
  // A browser comes again, with the id that it saw last.
  const again = await open(`/jobs/${id}/events`, { 'Last-Event-ID': events[1]?.id ?? '' })
  expect(again.response.status).toBe(204)
  const missed = await open(`/jobs/${id}/events`, { 'Last-Event-ID': events[0]?.id ?? '' })
  await missed.until(() => missed.state.isEnded)
  expect(changes(missed.events)).toEqual(['job.state_changed active>completed'])
})

test('an operator who runs a job again changes its state, and makes no new job', async () => {
  const id = await run('sse-again')
  const { events, until } = await open('/queues/sse-again/events')
  await ask('POST', `/admin/jobs/${id}/retry`)
  await until(() => events.length > 0)
  expect(changes(events)).toEqual(['job.state_changed completed>available'])
})

test('a job that has ended is told in one event; an unknown one is a 404', async () => {
  const id = await run('sse-ended')
  const { events, until, state } = await open(`/jobs/${id}/events`)
  await until(() => state.isEnded)
  expect(events).toMatchObject([{ data: { to: 'completed', job_id: id } }])
  const again = await open(`/jobs/${id}/events`, { 'Last-Event-ID': events[0]?.id ?? '' })
  expect(again.response.status).toBe(204)
  for (const path of [
    '/jobs/0197a1c2-77d0-7aa1-9d55-0c1f5e6b2a60/events',
    '/events/stream?channel=job:0197a1c2-77d0-7aa1-9d55-0c1f5e6b2a60',
    '/queues/nobody/events',
  ]) {
    expect((await open(path)).response.status).toBe(404)
  }
  expect((await open('/events/stream?channel=x')).response.status).toBe(400)
})

test('the stream of a queue has its jobs only, and the whole vocabulary is filtered by type and queue', async () => {
  await pushed('sse-q')
  const queue = await open('/queues/sse-q/events')
  const channel = await open('/events/stream?channel=queue:sse-q&event_types=job.*')
  const all = await open('/events/stream?queue=sse-q&types=job.enqueued,job.completed')
  const everything = await open('/events/stream')
  await run('sse-other')
  await ask('POST', '/queues/sse-q/pause')
  await ask('POST', '/queues/sse-q/resume')
  await pushed('sse-q')
  await queue.until(() => queue.events.length === 3)
  expect(queue.events.map(({ event }) => event)).toEqual([
    'queue.paused',
    'queue.resumed',
    'job.state_changed',
  ])
  expect(queue.events[2]?.data).toMatchObject({ from: null, to: 'available', queue: 'sse-q' })
  await channel.until(() => channel.events.length === 2)
  expect(channel.events.map(({ event }) => event)).toEqual(['job.state_changed', 'job.enqueued'])
  await all.until(() => all.events.length === 1)
  expect(all.events[0]).toMatchObject({ event: 'job.enqueued', data: { queue: 'sse-q' } })
  await everything.until(() => everything.events.length >= 6)
  const names = everything.events.map(({ event }) => event)
  expect(names).toEqual(expect.arrayContaining(['job.started', 'job.completed', 'queue.paused']))
  expect(names).not.toContain('job.state_changed')
})

test('Last-Event-ID replays what follows it; an id that is gone is told as a gap', async () => {
  await run('sse-replay')
  const listed = (await ask('GET', '/events?queues=sse-replay')).body.events
  const replay = await open('/events/stream?queue=sse-replay', { 'Last-Event-ID': listed[0].id })
  await replay.until(() => replay.events.length === 2)
  expect(replay.events.map(({ id }) => id)).toEqual([listed[1].id, listed[2].id])
  const lost = 'evt_0197a1c2-8000-7000-8000-000000000002'
  const gap = await open('/events/stream?queue=sse-replay', { 'Last-Event-ID': lost })
  await gap.until(() => gap.events.length === 1)
  const gapStart = new Date(0x0197a1c28000).toISOString()
  expect(gap.events[0]).toMatchObject({ event: 'system.gap', data: { gap_start: gapStart } })
})

describe('the stream of the progress of a job', () => {
  const report = (id: string, progress: number, data?: object) =>
    ask('PUT', `/jobs/${id}/progress`, { progress, ...(data && { data }) })
  const started = async (queue: string, options: object = {}) => {
    const body = { type: 'a', args: [], options: { queue, ...options } }
    const { id } = (await ask('POST', '/jobs', body)).body.job
    await fetched(queue)
    return id as string
  }
  const fetched = (queue: string) =>
    ask('POST', '/workers/fetch', { queues: [queue], worker_id: 'w', wait_ms: 20_000 })
  const told = (events: readonly Read[]) =>
    events.map(({ event, data }) => [event ?? '', data['progress']])
  /** Each comes with its name, and without one. */
  const twice = (name: string, progress: number | null) => [
    [name, progress],
    ['', progress],
  ]

  test('begins with how far it is, has each change, and ends with the job', async () => {
    const id = await started('sse-progress')
    const { response, events, until, state } = await open(`/jobs/${id}/progress/stream`)
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    await until(() => events.length === 2)
    await report(id, 0.2, { page: 1 })
    await until(() => events.at(-1)?.data['progress'] === 0.2)
    // Within the same second: no event tells of it.
    await report(id, 0.3, { page: 2 })
    await until(() => events.at(-1)?.data['progress'] === 0.3)
    const { body } = await ask('GET', `/jobs/${id}/progress`)
    expect(events.at(-1)?.data).toEqual(body)
    await ask('POST', '/workers/ack', { job_id: id, worker_id: 'w' })
    await until(() => state.isEnded)
    expect(told(events).slice(0, 2)).toEqual(twice('progress', null))
    expect(told(events).slice(-4)).toEqual([...twice('progress', 0.3), ...twice('completed', 1)])

    const seen = { 'Last-Event-ID': events.at(-1)?.id ?? '' }
    expect((await open(`/jobs/${id}/progress/stream`, seen)).response.status).toBe(204)
    const late = await open(`/jobs/${id}/progress/stream`)
    await late.until(() => late.state.isEnded)
    expect(told(late.events)).toEqual([...twice('progress', 1), ...twice('completed', 1)])
  })

  test('begins anew with the next attempt, and tells of a job that has failed, or is unknown', async () => {
    const queue = 'sse-progress-retry'
    const retry = { max_attempts: 2, initial_interval_ms: 1, jitter: false }
    const id = await started(queue, { retry })
    const { events, until, state } = await open(`/jobs/${id}/progress/stream`)
    const fail = () =>
      ask('POST', '/workers/nack', { job_id: id, error: { code: 'no', message: 'no' } })
    await report(id, 0.5)
    await fail()
    await fetched(queue)
    await until(() => events.at(-1)?.data['attempt'] === 2)
    expect(events.at(-1)?.data).toMatchObject({ state: 'active', progress: null })
    await report(id, 0.1)
    await fail()
    await until(() => state.isEnded)
    expect(events.at(-1)?.data).toMatchObject({ state: 'discarded', progress: 0.1 })
    expect(events.at(-2)?.event).toBe('failed')
    const unknown = '/jobs/0197a1c2-77d0-7aa1-9d55-0c1f5e6b2a61/progress/stream'
    expect((await open(unknown)).response.status).toBe(404)
  })
})

test('statistics come every second', async () => {
  await run('sse-stats')
  const { events, until } = await open('/admin/stats/stream')
  await until(() => events.length >= 3)
  const { data, event } = events[2] ?? { data: {} }
  expect(event).toBe('metrics')
  expect(data['queues']).toEqual(
    expect.arrayContaining([expect.objectContaining({ queue: 'sse-stats', active: 0 })]),
  )
  expect(data).toMatchObject({ throughput: { processed_per_second: 0 }, workers: {} })
})

test('HEAD of a stream ends, and streams are bounded: the next one is a 429', async () => {
  const { hostname, port } = new URL(gateway.url)
  const sockets = await Promise.all(
    Array.from({ length: 101 }, async () => {
      const socket = connect(Number(port), hostname)
      onTestFinished(() => void socket.destroy())
      socket.write('GET /ojs/v1/events/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
      const [data] = await once(socket, 'data')
      return String(data).split(' ')[1]
    }),
  )
  expect(sockets.filter((status) => status === '429').length).toBeGreaterThan(0)
  expect(sockets.filter((status) => status === '200').length).toBeGreaterThan(80)
  const head = await fetch(`${gateway.url}/ojs/v1/events/stream`, { method: 'HEAD' })
  expect(head.status).toBe(204)
})

describe('a gateway that stops', () => {
  const other = gatewayForAll()

  test('ends each stream with a last word', async () => {
    const streams = await Promise.all(
      ['/events/stream', '/admin/stats/stream'].map((path) => open(path, {}, other.gateway.url)),
    )
    await other.gateway.stop()
    for (const { until, state, events } of streams) {
      await until(() => state.isEnded)
      expect(events.at(-1)).toMatchObject({ event: 'server.shutdown' })
    }
  })
})
