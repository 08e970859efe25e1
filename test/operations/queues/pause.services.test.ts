import { beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/clock.ts'
import { inOrder } from '../../support/broker/order.ts'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import {
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  startJob,
  stateOf,
  untilState,
  withChannel,
} from '../harness.ts'

const HOUR_MS = 3_600_000

describe.each(['classic', 'quorum'])('a paused queue (%s)', (queueType) => {
  let aheadMs = 0
  const system = systemClock()
  const clock = { now: () => system.now(), wall: () => system.wall() + aheadMs }
  const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: queueType }, { clock })
  let queue = ''
  beforeEach(() => {
    queue = freshQueue()
  })

  const direct = (verb: string, name: string, body?: unknown) =>
    gateway.request('POST', `/ojs/v1/queues/${name}/${verb}`, body)
  const pause = async (name: string) => (await direct('pause', name)).body
  const resume = async (name: string) => (await direct('resume', name)).body
  const pushed = async (options: object = {}) => {
    const { status, body } = await gateway.push(queue, { options })
    expect(status).toBe(201)
    return body.job.id
  }
  const statusOf = async (name: string) => {
    const { body } = await gateway.request('GET', '/ojs/v1/queues?limit=100')
    return body.queues.find((one: { name: string }) => one.name === name)?.status
  }
  const isBack = async (id: string) =>
    (await queueMessages(vhost.url, `ojs.queue.${queue}`)).includes(id)

  it('gives FETCH no job and refuses PUSH with 422 queue_paused, until it is resumed', async () => {
    const id = await pushed()
    const before = Date.now()
    const paused = await direct('pause', queue)
    expect(paused.status).toBe(200)
    const { paused_at: pausedAt } = paused.body
    expect(paused.body).toEqual({ queue, status: 'paused', paused_at: pausedAt })
    expect(Math.abs(Date.parse(pausedAt) - before)).toBeLessThan(10_000)
    expect(await statusOf(queue)).toBe('paused')
    expect(await gateway.fetch([queue])).toEqual([])

    const refused = await gateway.push(queue)
    expect(refused.status).toBe(422)
    expect(refused.body.error).toEqual({
      code: 'queue_paused',
      message: `Queue '${queue}' is currently paused. Jobs cannot be enqueued or fetched.`,
      retryable: true,
      details: { queue, paused_at: pausedAt },
      request_id: expect.any(String),
    })
    const scheduled = await gateway.push(queue, { options: { delay_until: '+PT1H' } })
    expect(scheduled.body.error.code).toBe('queue_paused')

    const resumed = await direct('resume', queue, {})
    expect(resumed.status).toBe(200)
    const { resumed_at: resumedAt } = resumed.body
    expect(resumed.body).toEqual({ queue, status: 'active', resumed_at: resumedAt })
    expect(await statusOf(queue)).toBe('active')
    expect((await fetchOne(gateway, queue)).id).toBe(id)
    await pushed()
  })

  it('keeps its paused_at and emits no second event when it is paused or resumed again', async () => {
    await pushed()
    const { paused_at: first } = await pause(queue)
    expect(await pause(queue)).toEqual({ queue, status: 'paused', paused_at: first })
    await resume(queue)
    expect((await resume(queue)).status).toBe('active')
    const { body } = await gateway.request('GET', `/ojs/v1/events?queues=${queue}&limit=1000`)
    const told = body.events.filter(({ type }: { type: string }) => type.startsWith('queue.'))
    expect(told).toMatchObject([
      { type: 'queue.paused', subject: queue, data: { queue } },
      { type: 'queue.resumed', subject: queue, data: { queue } },
    ])
  })

  it('is created by pause or resume, but not by asking for its stats', async () => {
    expect((await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)).status).toBe(404)
    expect(await statusOf(queue)).toBeUndefined()
    expect((await pause(queue)).status).toBe('paused')
    expect(await statusOf(queue)).toBe('paused')
    expect(await vhost.queue(`ojs.queue.${queue}`)).toBeDefined()
    const other = freshQueue()
    expect((await resume(other)).status).toBe('active')
    expect(await statusOf(other)).toBe('active')
  })

  it.each(['UPPER', 'dlx.x', 'a%20b'])(
    'with the invalid name %s is refused with 400',
    async (name) => {
      for (const verb of ['pause', 'resume']) {
        const { status, body } = await direct(verb, name)
        expect(status).toBe(400)
        expect(body.error).toMatchObject({ code: 'invalid_request', details: { field: 'name' } })
      }
      expect((await direct('pause', queue, ['now'])).status).toBe(400)
    },
  )

  it('refuses a batch as a whole when one of its jobs is for it', async () => {
    const open = freshQueue()
    await pause(queue)
    const jobs = [open, queue].map((name) => ({ type: 't', args: [], options: { queue: name } }))
    const { status, body } = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
    expect(status).toBe(422)
    expect(body.error).toMatchObject({ code: 'queue_paused', details: { queue } })
    expect(await gateway.fetch([open])).toEqual([])
  })

  it('does not keep FETCH from serving its other queues', async () => {
    const other = freshQueue()
    await pushed()
    const [job] = await gateway.fetch([queue], { wait_ms: 10_000 })
    const { body } = await gateway.push(other)
    await pause(queue)
    expect(await gateway.fetch([queue, other], { wait_ms: 10_000, count: 5 })).toMatchObject([
      { id: body.job.id },
    ])
    expect((await gateway.ack(job.id)).status).toBe(200)
  })

  it('lets active jobs end, and collects retries, schedules and activated jobs until it is resumed', async () => {
    const retry = { initial_interval_ms: 100, jitter: false }
    const done = await startJob(gateway, queue)
    const failing = await startJob(gateway, queue, { retry })
    const dead = await startJob(gateway, queue, { retry: { max_attempts: 1 } })
    // Started last, since its lease of 200 ms may end at once.
    const lost = await startJob(gateway, queue, { visibility_timeout_ms: 200 })
    const scheduled = await pushed({ delay_until: '+PT1H' })
    const staged = await pushed({ pending: true })
    await nack(gateway, dead.id)
    await pause(queue)

    const beat = { worker_id: 'w', active_jobs: [done.id] }
    const { body } = await gateway.request('POST', '/ojs/v1/workers/heartbeat', beat)
    expect(body.jobs_extended).toEqual([done.id])
    expect((await gateway.ack(done.id)).status).toBe(200)
    expect((await nack(gateway, failing.id)).body.state).toBe('retryable')
    expect((await gateway.request('POST', `/ojs/v1/jobs/${staged}/activate`)).status).toBe(200)
    expect((await gateway.request('POST', `/ojs/v1/dead-letter/${dead.id}/retry`)).status).toBe(200)
    aheadMs += HOUR_MS
    const waiting = [failing.id, lost.id, scheduled, staged, dead.id]
    for (const id of waiting) await untilState(gateway, id, 'available')
    for (const id of waiting) await eventually(() => isBack(id))
    expect(await gateway.fetch([queue], { count: 10 })).toEqual([])

    await resume(queue)
    const ran: string[] = []
    while (ran.length < waiting.length) ran.push((await fetchOne(gateway, queue)).id)
    expect(inOrder(ran)).toEqual(inOrder(waiting))
  })

  it('returns the buffered job messages to RabbitMQ, and serves them in order after it is resumed', async () => {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push(await pushed())
    expect((await fetchOne(gateway, queue)).id).toBe(ids.shift())
    await pause(queue)
    await withChannel(vhost.url, (channel) =>
      eventually(async () => {
        const { messageCount } = await channel.checkQueue(`ojs.queue.${queue}`)
        return messageCount === ids.length
      }),
    )
    await resume(queue)
    for (const id of ids) expect((await fetchOne(gateway, queue)).id).toBe(id)
  })

  it('keeps a FETCH waiting that came before or after the pause, and serves it once resumed', async () => {
    await pushed()
    const job = await fetchOne(gateway, queue)
    const early = gateway.fetch([queue], { wait_ms: 20_000 })
    await pause(queue)
    const late = gateway.fetch([queue], { wait_ms: 20_000 })
    await nack(gateway, job.id, {}, { requeue: true })
    expect(await stateOf(gateway, job.id)).toBe('available')
    await resume(queue)
    const second = await pushed()
    const served = (await Promise.all([early, late])).flat().map(({ id }) => id)
    expect(inOrder(served)).toEqual(inOrder([job.id, second]))
  })

  it('is still paused after a restart', async () => {
    const id = await pushed()
    const { paused_at: pausedAt } = await pause(queue)
    await gateway.restart()
    expect(await statusOf(queue)).toBe('paused')
    expect(await gateway.fetch([queue], { wait_ms: 300 })).toEqual([])
    expect((await gateway.push(queue)).body.error.details.paused_at).toBe(pausedAt)
    await resume(queue)
    expect((await fetchOne(gateway, queue)).id).toBe(id)
    await gateway.restart()
    expect(await statusOf(queue)).toBe('active')
  })
})

describe('with OJS_DIALECT=conformance', () => {
  const { gateway } = gatewayForAll({ OJS_DIALECT: 'conformance' })

  it('a paused queue accepts PUSH, and pause, stats and resume answer the queue as an object', async () => {
    const paused = await gateway.request('POST', '/ojs/v1/queues/q/pause', {})
    expect(paused.body).toMatchObject({ queue: { name: 'q', paused: true }, status: 'paused' })
    const { status, body } = await gateway.push('q')
    expect([status, body.job.state]).toEqual([201, 'available'])
    expect(await gateway.fetch(['q'])).toEqual([])
    const stats = await gateway.request('GET', '/ojs/v1/queues/q/stats')
    expect(stats.body.queue).toMatchObject({ name: 'q', available: 1, active: 0, completed: 0 })
    const resumed = await gateway.request('POST', '/ojs/v1/queues/q/resume', {})
    expect(resumed.body.queue).toEqual({ name: 'q', paused: false })
    expect((await fetchOne(gateway, 'q')).id).toBe(body.job.id)
  })
})
