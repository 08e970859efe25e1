import type { GetMessage } from 'amqplib'
import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  startJob,
  stateOf,
  storyOf,
  untilState,
} from '../operations/harness.ts'
import { type ControlClient, connectControl } from '../support/gateway/control.ts'
import { eventually } from '../support/gateway/in-process.ts'

const { vhost, gateway } = gatewayForAll()
let client: ControlClient

beforeAll(async () => {
  client = await connectControl(vhost.url)
})
afterAll(() => client.close())

const REPORT = 'ojs.control.report'
const HEARTBEAT = 'ojs.control.heartbeat'

/** Pushes a job over HTTP and takes its job message as a native worker does. */
async function inHand(queue = freshQueue(), options: object = {}) {
  const { body } = await gateway.push(queue, { options })
  const id: string = body.job.id
  let jobMessage: GetMessage | false = false
  await eventually(async () => {
    jobMessage = await client.channel.get(`ojs.queue.${queue}`)
    return jobMessage !== false
  })
  return {
    id,
    queue,
    jobMessage: jobMessage as unknown as GetMessage,
    about: { job_id: id, attempt: 1 },
  }
}

const worker = () => `w-${v7()}`

const GIVEN = { token_attempt: 1 }

/** JSON of this many nested lists. */
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`

describe('ojs.control.report', () => {
  it('makes a job active and completed over HTTP', async () => {
    const { id, queue, jobMessage, about } = await inHand()
    const workerId = worker()
    const say = (event: object) =>
      client.say(queue, REPORT, { worker_id: workerId, events: [{ ...about, ...event }] })
    await say({ event: 'started' })
    const active = await untilState(gateway, id, 'active')
    expect(active).toMatchObject({ attempt: 1, worker_id: workerId })
    await say({ event: 'completed', result: { sent: [1, null] } })
    client.channel.ack(jobMessage)
    expect(await untilState(gateway, id, 'completed')).toMatchObject({
      result: { sent: [1, null] },
    })
    expect(await storyOf(gateway, queue, id)).toEqual([
      'job.enqueued',
      'job.started',
      'job.completed',
    ])
  })

  it('adopts a failed job that the gateway did not know, and retries it', async () => {
    const queue = freshQueue()
    const retry = { initial_interval: 'PT0.1S', jitter: false }
    const job = { id: v7(), type: 'test.job', args: [1], x: 2, retry }
    const about = {
      job_id: job.id,
      attempt: 1,
      event: 'failed',
      error: { code: 'e', message: 'm' },
    }
    await client.ask('default', 'ojs.control.sync', { worker_id: worker(), queues: [queue] })
    const events = [{ ...about, job, max_attempts: 2 }]
    await client.say(queue, REPORT, { worker_id: worker(), events })
    expect(await fetchOne(gateway, queue)).toMatchObject({
      id: job.id,
      attempt: 2,
      max_attempts: 2,
      args: [1],
      x: 2,
    })
  })

  const TRACE = `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`

  it('keeps the headers and properties of an adopted job for its retry', async () => {
    const queue = freshQueue()
    const retry = { initial_interval: 'PT0.1S', jitter: false }
    const job = { id: v7(), type: 'test.job', args: [1], retry }
    const headers = {
      'x-ojs-attempt': 1,
      'x-ojs-max-attempts': 7,
      'x-ojs-created-at': '2026-02-12T10:30:00.000Z',
      'x-ojs-trace-id': TRACE,
      'x-ojs-tags': 'a,b',
      'x-tenant': 'acme',
      'x-death': [{ queue: 'elsewhere' }],
    }
    const properties = { priority: 4, correlation_id: 'c-1', reply_to: 'replies', app_id: 'shop' }
    const about = { job_id: job.id, attempt: 1, event: 'failed' }
    const error = { code: 'e', message: 'm' }
    await client.ask('default', 'ojs.control.sync', { worker_id: worker(), queues: [queue] })
    const events = [{ ...about, error, job, headers, properties }]
    await client.say(queue, REPORT, { worker_id: worker(), events })
    let jobMessage: Awaited<ReturnType<typeof client.channel.get>> = false
    await eventually(async () => {
      jobMessage = await client.channel.get(`ojs.queue.${queue}`, { noAck: true })
      return jobMessage !== false
    })
    expect(jobMessage).toMatchObject({
      properties: {
        priority: 4,
        correlationId: 'c-1',
        replyTo: 'replies',
        appId: 'shop',
        headers: {
          'x-ojs-attempt': 2,
          'x-ojs-max-attempts': 7,
          'x-ojs-created-at': '2026-02-12T10:30:00.000Z',
          'x-ojs-trace-id': TRACE,
          'x-ojs-tags': 'a,b',
          'x-tenant': 'acme',
        },
      },
    })
    expect(jobMessage).not.toHaveProperty('properties.headers.x-death')
    const { body } = await gateway.get(job.id)
    expect(body.job).toMatchObject({ priority: 4, tags: ['a', 'b'], meta: { traceparent: TRACE } })
  })

  it('adopts a job in spite of invalid headers and properties', async () => {
    const queue = freshQueue()
    const job = { id: v7(), type: 'test.job', args: [1] }
    const headers = { 'x-ojs-max-attempts': 'many', 'x-ojs-tags': 5, '!': 1, a: { '!': 'b' } }
    const properties = { priority: 'high', timestamp: {}, reply_to: 7, app_id: [] }
    const about = { job_id: job.id, attempt: 1, event: 'completed' }
    await client.ask('default', 'ojs.control.sync', { worker_id: worker(), queues: [queue] })
    const events = [{ ...about, job, headers, properties }]
    await client.say(queue, REPORT, { worker_id: worker(), events })
    await eventually(async () => (await gateway.get(job.id)).status === 200)
    expect((await gateway.get(job.id)).body.job).toMatchObject({ priority: 0, tags: [] })
  })

  it('accepts a failed job as large as HTTP accepts, although its text is escaped', async () => {
    const queue = freshQueue()
    const options = { retry: { initial_interval: 'PT1H', max_interval: 'PT1H' } }
    const { body } = await gateway.push(queue, { args: ['é'.repeat(1_000_000)], options })
    const id: string = body.job.id
    await client.ask('default', 'ojs.control.sync', { worker_id: worker(), queues: [queue] })
    const jobMessage = await client.channel.get(`ojs.queue.${queue}`)
    if (jobMessage === false) throw new Error('no job message')
    const job = JSON.parse(jobMessage.content.toString())
    const error = { code: 'e', message: 'm' }
    const events = [{ job_id: id, attempt: 1, event: 'failed', error, job }]
    const text = JSON.stringify({ worker_id: worker(), events }).replaceAll('é', '\\u00e9')
    await client.say(queue, REPORT, Buffer.from(text))
    client.channel.ack(jobMessage)
    await untilState(gateway, id, 'retryable')
  })

  it('applies the valid events of a message, and counts the invalid ones as skipped', async () => {
    const queue = freshQueue()
    const jobs = [await inHand(queue), await inHand(queue)]
    const events = jobs.flatMap(({ about }) => [
      { ...about, attempt: 'one', event: 'completed' },
      { ...about, event: 'completed' },
      null,
    ])
    await client.say(queue, REPORT, { worker_id: 'w', events })
    for (const { id, jobMessage } of jobs) {
      await untilState(gateway, id, 'completed')
      client.channel.ack(jobMessage)
    }
    const { body } = await gateway.request('GET', '/metrics')
    expect(body).toContain('ojs_control_skipped_total{type="ojs.control.report"} 4')
  })

  const BAD: [string, object, string][] = [
    ['nested too deep', { result: '?' }, nested(33)],
    ['nested deeper than the call stack', { result: '?' }, nested(400_000)],
    ['with an unsafe integer', { result: { n: ['?'] } }, '9007199254740993'],
    ['with NaN', { result: '?' }, 'NaN'],
    ['with invalid UTF-8', { result: ['?'] }, '"\xff"'],
  ]

  it.each(BAD)(
    'applies the valid events beside one %s, whose job is discarded as invalid_report',
    async (_name, members, put) => {
      const queue = freshQueue()
      const [bad, ...good] = [await inHand(queue), await inHand(queue), await inHand(queue)]
      const all = [good[0], bad, good[1]].map((job) => ({
        ...job?.about,
        event: 'completed',
        ...(job === bad && members),
      }))
      const text = JSON.stringify({ worker_id: 'w', events: all }).replace('"?"', put)
      await client.say(queue, REPORT, Buffer.from(text, 'latin1'))
      for (const { id, jobMessage } of good) {
        await untilState(gateway, id, 'completed')
        client.channel.ack(jobMessage)
      }
      // The worker acknowledges the job message of the invalid event too, so the gateway has to end the job.
      client.channel.ack(bad.jobMessage)
      const job = await untilState(gateway, bad.id, 'discarded')
      expect(job).toMatchObject({ error: { code: 'invalid_report' } })
      expect(job).not.toHaveProperty('result')
    },
  )

  it.each<[string, object, string]>([
    ['a time that is a number', { at: 1_770_000_000 }, ''],
    ['NaN in its headers', { headers: { n: '?' } }, 'NaN'],
    ['a job nested too deep', { job: { args: '?' } }, nested(32)],
  ])('applies a completion with %s as if it were absent', async (_name, members, put) => {
    const { id, queue, jobMessage, about } = await inHand()
    const events = [{ ...about, event: 'completed', result: { sent: 3 }, ...members }]
    const text = JSON.stringify({ worker_id: 'w', events }).replace('"?"', put)
    await client.say(queue, REPORT, Buffer.from(text))
    client.channel.ack(jobMessage)
    expect(await untilState(gateway, id, 'completed')).toMatchObject({ result: { sent: 3 } })
  })

  it.each([
    ['is missing', {}],
    ['has no message', { error: { code: 'e' } }],
    ['has an unsafe integer', { error: { message: 'm', details: ['?'] } }],
  ])('applies a failure whose error %s with the error invalid_report', async (_name, members) => {
    const { id, queue, jobMessage, about } = await inHand()
    const outcome = { decision: 'retry', delay_ms: 3_600_000, rung_ms: null }
    const events = [{ ...about, event: 'failed', outcome, ...members }]
    const text = JSON.stringify({ worker_id: 'w', events }).replace('"?"', '9007199254740993')
    await client.say(queue, REPORT, Buffer.from(text))
    client.channel.ack(jobMessage)
    const job = await untilState(gateway, id, 'retryable')
    expect(job).toMatchObject({ attempt: 1, error: { code: 'invalid_report' } })
    expect(Date.parse(job.next_attempt_at)).toBeGreaterThan(Date.now() + 3_000_000)
  })

  it('ignores a failure with an unknown decision, since a retry may be under way', async () => {
    const { id, queue, jobMessage, about } = await inHand()
    const error = { code: 'e', message: 'm' }
    const events = [{ ...about, event: 'failed', error, outcome: { decision: 'perhaps' } }]
    await client.say(queue, REPORT, { worker_id: 'w', events })
    await client.say(queue, REPORT, { worker_id: 'w', events: [{ ...about, event: 'started' }] })
    await untilState(gateway, id, 'active')
    client.channel.nack(jobMessage)
  })

  it('accepts results and jobs nested as deep as HTTP accepts', async () => {
    const { id, queue, jobMessage, about } = await inHand()
    const deep = JSON.parse(nested(31))
    const job = { id: v7(), type: 'test.job', args: deep, queue }
    const events = [
      { ...about, event: 'completed', result: deep },
      { job_id: job.id, attempt: 1, event: 'completed', result: deep, job },
    ]
    await client.say(queue, REPORT, { worker_id: 'w', events })
    client.channel.ack(jobMessage)
    for (const one of [id, job.id]) {
      await eventually(async () => (await gateway.get(one)).status === 200)
      expect(await untilState(gateway, one, 'completed')).toMatchObject({ result: deep })
    }
    const http = await startJob(gateway, freshQueue())
    const answer = await gateway.request('POST', '/ojs/v1/workers/ack', {
      job_id: http.id,
      result: deep,
    })
    expect(answer.status).toBe(200)
  })

  it.each([
    ['for 60 days, as the policy of its job allows', { max_interval: 'P60D' }, 60],
    ['for one day instead of 60', {}, 1],
  ])('accepts a retry that waits %s', async (_name, retry, days) => {
    const { id, queue, jobMessage, about } = await inHand(freshQueue(), { retry })
    const error = { code: 'handler_error', message: 'full moon' }
    const outcome = { decision: 'retry', delay_ms: 60 * 86_400_000, rung_ms: null }
    await client.say(queue, REPORT, {
      worker_id: 'w',
      events: [{ ...about, event: 'failed', error, outcome }],
    })
    client.channel.ack(jobMessage)
    const job = await untilState(gateway, id, 'retryable')
    const dueInMs = Date.parse(job.next_attempt_at) - Date.now()
    expect(Math.abs(dueInMs - days * 86_400_000)).toBeLessThan(60_000)
  })

  it('of a failure without an outcome leaves the retry to the gateway', async () => {
    const retry = { max_attempts: 2, initial_interval_ms: 100, jitter: false }
    const { id, queue, jobMessage, about } = await inHand(freshQueue(), { retry })
    const error = { code: 'handler_error', message: 'no route' }
    await client.say(queue, REPORT, {
      worker_id: 'w',
      events: [{ ...about, event: 'failed', error }],
    })
    client.channel.ack(jobMessage)
    await untilState(gateway, id, 'available')
    const [job] = await gateway.fetch([queue], { wait_ms: 10_000 })
    expect(job).toMatchObject({ id, attempt: 2, error: { message: 'no route' } })
  })

  it('of a released job makes it available at once, for the same attempt', async () => {
    const { id, queue, jobMessage, about } = await inHand(freshQueue(), {
      retry: { max_attempts: 1 },
    })
    const said = (event: string) => ({ ...about, event, ...(event === 'released' && GIVEN) })
    const workerId = worker()
    const say = (...events: string[]) =>
      client.say(queue, REPORT, { worker_id: workerId, events: events.map(said) })
    await say('started')
    await untilState(gateway, id, 'active')
    await say('released')
    client.channel.nack(jobMessage)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 1 })
    // A repeated report is ignored.
    await say('released', 'started')
    await client.ask(queue, 'ojs.control.info', { job_id: id })
    expect((await gateway.ack(id, { attempt: 1 })).status).toBe(200)
  })

  it('of 200 jobs, with start and completion in two messages each, completes all of them', async () => {
    const queue = freshQueue()
    const jobs = Array.from({ length: 200 }, () => ({ type: 'a.b', args: [], options: { queue } }))
    const { body } = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
    const ids: string[] = body.jobs.map(({ id }: { id: string }) => id)
    for (const event of ['started', 'completed']) {
      await Promise.all(
        ids.map((id) =>
          client.say(queue, REPORT, {
            worker_id: 'w',
            events: [{ job_id: id, attempt: 1, event }],
          }),
        ),
      )
    }
    await eventually(async () => {
      const states = await Promise.all(ids.map((id) => stateOf(gateway, id)))
      return states.every((state) => state === 'completed')
    })
    const answer = await gateway.request('GET', `/ojs/v1/events?queues=${queue}&limit=1000`)
    const events: { subject: string; type: string }[] = answer.body.events
    for (const id of ids) {
      const story = events.filter(({ subject }) => subject === id).map(({ type }) => type)
      expect(story).toEqual(['job.enqueued', 'job.started', 'job.completed'])
    }
  })
})

describe('a job whose native lease expired before its delivery was requeued', () => {
  it('is available again after an HTTP worker has requeued it', async () => {
    const { id, queue, jobMessage, about } = await inHand(freshQueue(), {
      visibility_timeout_ms: 1_000,
    })
    const events = [{ ...about, event: 'started' }]
    await client.say(queue, REPORT, { worker_id: worker(), events })
    // The job is active for one second only, so the test looks at its events.
    await eventually(async () => (await storyOf(gateway, queue, id)).includes('job.started'))
    await untilState(gateway, id, 'available')
    client.channel.nack(jobMessage, false, true)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 2 })
    await nack(gateway, id, {}, { requeue: true })
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 2 })
    await gateway.ack(id)
  })
})

describe('ojs.control.heartbeat (AMQP-020)', () => {
  it.each(['one', 'many'] as const)(
    'starts a job, and lists it as active for its worker, named as %s',
    async (form) => {
      const { id, queue, jobMessage } = await inHand(freshQueue(), {
        visibility_timeout_ms: 60_000,
      })
      const workerId = worker()
      const named =
        form === 'one' ? { job_id: id } : { job_ids: [id, 7], state: 'running', pid: 42 }
      await client.say(queue, HEARTBEAT, { worker_id: workerId, ...named })
      const job = await untilState(gateway, id, 'active')
      expect(job).toMatchObject({ worker_id: workerId, attempt: 1 })
      const { body } = await gateway.request('GET', '/ojs/v1/admin/workers?limit=100')
      const listed = body.items.find((item: { id: string }) => item.id === workerId)
      expect(listed).toMatchObject({ active_job_ids: [id] })
      client.channel.ack(jobMessage)
    },
  )

  it('of a cancelled job and a directed worker causes both broadcasts again', async () => {
    const { id, queue, jobMessage } = await inHand()
    const workerId = worker()
    const beat = () =>
      client.say(queue, HEARTBEAT, {
        worker_id: workerId,
        job_ids: [id],
        state: 'running',
        queues: [queue],
      })
    await beat()
    await untilState(gateway, id, 'active')
    const heard = await client.listen([queue])
    await gateway.cancel(id)
    await expect.poll(() => heard.length).toBe(1)
    expect(heard[0]).toMatchObject({ type: 'ojs.control.cancel', body: { job_id: id } })
    await gateway.request('POST', `/ojs/v1/admin/workers/${workerId}/quiet`)
    await expect.poll(() => heard.length).toBe(2)
    await beat()
    await expect
      .poll(() => new Set(heard.slice(2).map(({ type }) => type)))
      .toEqual(new Set(['ojs.control.cancel', 'ojs.control.directive']))
    client.channel.ack(jobMessage)
  })
})

describe('ojs.control.claim', () => {
  const claim = (queue: string, id: string, over: object = {}) =>
    client.ask(queue, 'ojs.control.claim', {
      ...{ job_id: id, generation: 0, attempt: 1, worker_id: 'w' },
      ...over,
    })

  it('answers run, drop or discard', async () => {
    const { id, queue, jobMessage } = await inHand()
    expect(await claim(queue, id)).toEqual({ decision: 'run', attempt: 1 })
    expect(await claim(queue, id, { attempt: 99 })).toMatchObject({ decision: 'discard' })
    await gateway.cancel(id)
    expect(await claim(queue, id)).toMatchObject({ decision: 'drop' })
    expect(await claim('default', v7())).toEqual({ decision: 'run', attempt: 1 })
    client.channel.ack(jobMessage)
  })

  it('answers an invalid claim with an error', async () => {
    expect(await claim('default', v7(), { attempt: 0 })).toMatchObject({
      error: { code: 'invalid_request', details: { field: 'attempt' } },
    })
  })
})

describe('ojs.control.sync', () => {
  it('declares the queues, and answers the cancelled jobs', async () => {
    const { id, queue, jobMessage } = await inHand()
    await gateway.cancel(id)
    const fresh = freshQueue()
    const workerId = worker()
    const answer = await client.ask('default', 'ojs.control.sync', {
      worker_id: workerId,
      queues: [queue, fresh],
    })
    expect(answer).toEqual({
      tombstones: [id],
      truncated: false,
      paused: [],
      directive: 'running',
    })
    await client.channel.checkQueue(`ojs.queue.${fresh}`)
    await expect
      .poll(
        async () => (await client.channel.checkQueue(`ojs.queue.control.${fresh}`)).consumerCount,
      )
      .toBe(1)
    client.channel.ack(jobMessage)
  })

  it.each(['Upper', 'ojs.x', 'control.x'])('refuses the name %j', async (name) => {
    const body = { worker_id: 'w', queues: ['fine', name] }
    expect(await client.ask('default', 'ojs.control.sync', body)).toMatchObject({
      error: { code: 'invalid_request', details: { field: 'queues' } },
    })
  })
})

it('a native cancel of an unknown id keeps a job published later with this id from running', async () => {
  const queue = freshQueue()
  await gateway.push(queue)
  const [first] = await gateway.fetch([queue], { wait_ms: 10_000 })
  await gateway.ack(first.id)
  const id = v7()
  await client.say(queue, 'ojs.control.cancel', { job_id: id })
  await eventually(async () => {
    const answer = await client.ask(queue, 'ojs.control.claim', {
      ...{ job_id: id, attempt: 1, worker_id: 'w' },
    })
    return answer.decision === 'drop'
  })
  const job = { specversion: '1.0', id, type: 'a.b', queue, args: [] }
  client.channel.publish('ojs.exchange.direct', queue, Buffer.from(JSON.stringify(job)))
  const after = { ...job, id: v7() }
  client.channel.publish('ojs.exchange.direct', queue, Buffer.from(JSON.stringify(after)))
  await client.channel.waitForConfirms()
  const jobs = await gateway.fetch([queue], { wait_ms: 10_000, count: 10 })
  expect(jobs.map((fetched) => fetched.id)).toEqual([after.id])
})
