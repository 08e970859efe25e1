import amqp from 'amqplib'
import { v7 } from 'uuid'
import { describe, expect, it } from 'vitest'
import { eventually } from '../support/gateway/in-process.ts'
import { fetchOne, gatewayForAll, storyOf, untilBuffered } from './harness.ts'

describe.each(['classic', 'quorum'])('the gateway with %s queues', (profile) => {
  const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: profile }, { idleMs: 600_000 })
  let queue = ''
  let count = 0
  const fresh = () => {
    count += 1
    queue = `life-${count}`
    return queue
  }

  it('takes a job from PUSH through RabbitMQ to completed', async () => {
    const pushed = await gateway.push(fresh(), { args: ['a', { b: null }], vendor: { x: 1 } })
    expect(pushed.status).toBe(201)
    const id: string = pushed.body.job.id
    expect(pushed.headers.get('location')).toBe(`/ojs/v1/jobs/${id}`)
    expect(pushed.body.job).toMatchObject({ state: 'available', attempt: 0, vendor: { x: 1 } })

    const job = await fetchOne(gateway, queue, { worker_id: 'w1' })
    expect(job).toMatchObject({ id, state: 'active', attempt: 1, args: ['a', { b: null }] })
    expect(job.vendor).toEqual({ x: 1 })
    expect(await gateway.fetch([queue])).toEqual([])

    const acked = await gateway.ack(id, { result: { ok: [true] }, worker_id: 'w1', attempt: 1 })
    expect(acked.body).toMatchObject({ acknowledged: true, job_id: id, id, state: 'completed' })
    const read = await gateway.get(id)
    expect(read.body.state).toBe('completed')
    expect(read.body.job).toMatchObject({ state: 'completed', result: { ok: [true] }, attempt: 1 })
    await eventually(async () => (await vhost.queue(`ojs.queue.${queue}`))?.['messages'] === 0)
  })

  it('lists the queue, and the events of the job in order', async () => {
    const before = (await gateway.request('GET', '/ojs/v1/events')).body.cursor
    const id: string = (await gateway.push(fresh())).body.job.id
    await fetchOne(gateway, queue, { worker_id: 'w9' })
    await gateway.ack(id)
    const listed = await gateway.request('GET', `/ojs/v1/events?queues=${queue}&after=${before}`)
    const types = listed.body.events.map((event: { type: string }) => event.type)
    expect(types).toEqual(['job.enqueued', 'job.started', 'job.completed'])
    expect(listed.body.events[2]).toMatchObject({
      subject: id,
      data: { job_id: id, job_type: 'test.job', queue, attempt: 1, worker_id: 'w9' },
    })
    const queues = await gateway.request('GET', '/ojs/v1/queues?limit=1000')
    expect(queues.body.pagination).toMatchObject({ limit: 100, offset: 0, has_more: false })
    const names = queues.body.queues.map(({ name }: { name: string }) => name)
    expect(names[0]).toBe('default')
    expect(names).toContain(queue)
    const second = await gateway.request('GET', '/ojs/v1/queues?limit=1&offset=1')
    expect(second.body).toMatchObject({ queues: [{ name: names[1] }], pagination: { limit: 1 } })
    expect((await gateway.request('GET', '/ojs/v1/queues?limit=x')).status).toBe(400)
  })

  it('emits job.enqueued before job.started when a worker waits for the job', async () => {
    // RabbitMQ may deliver the job message before its confirm; with a waiting FETCH it mostly does.
    for (let i = 0; i < 20; i++) {
      const waiting = gateway.fetch([fresh()], { wait_ms: 15_000 })
      const { body } = await gateway.push(queue)
      expect(await waiting).toHaveLength(1)
      const story = await storyOf(gateway, queue, body.job.id)
      expect(story).toEqual(['job.enqueued', 'job.started'])
    }
  })

  it('hands out jobs in order, at most as many as requested, and none twice', async () => {
    fresh()
    const ids: string[] = []
    for (let i = 0; i < 30; i++) ids.push((await gateway.push(queue)).body.job.id)
    const got: string[] = []
    while (got.length < 30) {
      const jobs = await gateway.fetch([queue], { count: 7, wait_ms: 10_000 })
      expect(jobs.length).toBeLessThanOrEqual(7)
      expect(jobs.length).toBeGreaterThan(0)
      got.push(...jobs.map((job) => job.id))
    }
    expect(got).toEqual(ids)
  })

  it('gives each of 20 jobs to one of 20 waiting workers', async () => {
    fresh()
    const waiting = Array.from({ length: 20 }, () => gateway.fetch([queue], { wait_ms: 15_000 }))
    const pushed = await Promise.all(Array.from({ length: 20 }, () => gateway.push(queue)))
    const got = (await Promise.all(waiting)).map((jobs) => jobs[0]?.id)
    expect(new Set(got)).toEqual(new Set(pushed.map(({ body }) => body.job.id)))
  })

  it('serves the queues of a FETCH from left to right', async () => {
    const low = fresh()
    const high = fresh()
    await gateway.push(low)
    await gateway.push(high)
    // Both jobs have to be buffered, since FETCH answers whichever RabbitMQ delivers first.
    for (const name of [low, high]) await untilBuffered(gateway, name, 1)
    const served = [await gateway.fetch([high, low]), await gateway.fetch([high, low])].flat()
    expect(served.map((job) => job.queue)).toEqual([high, low])
  })

  it('accepts one of 16 parallel PUSHes of the same id', async () => {
    const id = v7()
    fresh()
    const answers = await Promise.all(Array.from({ length: 16 }, () => gateway.push(queue, { id })))
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toEqual([201, ...Array<number>(15).fill(409)])
    expect(answers.find(({ status }) => status === 409)?.body.error).toMatchObject({
      code: 'duplicate',
      details: { existing_job_id: id },
    })
  })

  it('drops the job message of a job that was cancelled while it was queued', async () => {
    const first: string = (await gateway.push(fresh())).body.job.id
    const second: string = (await gateway.push(queue)).body.job.id
    const cancelled = await gateway.cancel(first)
    expect(cancelled.body.job).toMatchObject({ state: 'cancelled', previous_state: 'available' })
    expect((await fetchOne(gateway, queue)).id).toBe(second)
    expect((await gateway.cancel(first)).status).toBe(409)
    expect((await gateway.get(first)).body.job).not.toHaveProperty('completed_at')
  })

  it('cancels an active job at once; its late ACK is a 409', async () => {
    const id: string = (await gateway.push(fresh())).body.job.id
    await fetchOne(gateway, queue)
    expect((await gateway.cancel(id)).body.job.previous_state).toBe('active')
    const late = await gateway.ack(id)
    expect(late.status).toBe(409)
    expect(late.body.error.details).toMatchObject({ current_state: 'cancelled' })
  })

  it('refuses an ACK with another attempt or worker than that of the lease', async () => {
    const id: string = (await gateway.push(fresh())).body.job.id
    expect((await gateway.ack(id)).body.error.details.current_state).toBe('available')
    await fetchOne(gateway, queue, { worker_id: 'w1' })
    const stale = await gateway.ack(id, { attempt: 2 })
    expect(stale.body.error.details.reason).toBe('stale_attempt')
    expect(stale.body.error.message).toContain('has not begun; the current attempt is 1')
    const other = await gateway.ack(id, { worker_id: 'w2' })
    expect(other.body.error.details.reason).toBe('other_worker')
    expect((await gateway.ack(id, { worker_id: 'w1', attempt: 1 })).status).toBe(200)
    expect((await gateway.ack(id)).status).toBe(409)
    expect((await gateway.ack(v7())).status).toBe(404)
  })

  it.each(['ack', 'nack'])(
    'takes an %s from any worker when the FETCH named none',
    async (verb) => {
      const id: string = (await gateway.push(fresh())).body.job.id
      await fetchOne(gateway, queue)
      const error = { code: 'test_failure', message: 'it failed' }
      const settle = (over: object) =>
        gateway.request('POST', `/ojs/v1/workers/${verb}`, { job_id: id, error, ...over })
      const stale = await settle({ worker_id: 'w1', attempt: 2 })
      expect(stale.body.error.details.reason).toBe('stale_attempt')
      const settled = await settle({ worker_id: 'w1', attempt: 1 })
      expect([settled.status, settled.body.job_id]).toEqual([200, id])
      expect((await settle({ worker_id: 'w1' })).status).toBe(409)
    },
  )

  it('never hands out a job whose expires_at has passed', async () => {
    const options = { expires_at: '+PT0.1S' }
    const id: string = (await gateway.push(fresh(), { options })).body.job.id
    const next: string = (await gateway.push(queue)).body.job.id
    await eventually(() => Date.now() > Date.parse(idTime(id)) + 150)
    expect((await fetchOne(gateway, queue)).id).toBe(next)
    expect((await gateway.get(id)).body.job.state).toBe('discarded')
  })

  it('answers FETCH with an empty list at once, and with wait_ms the job that comes later', async () => {
    fresh()
    expect(await gateway.fetch([queue])).toEqual([])
    const waiting = gateway.fetch([queue], { wait_ms: 10_000 })
    const id: string = (await gateway.push(queue)).body.job.id
    expect((await waiting)[0].id).toBe(id)
  })

  it('lets a worker acknowledge after the gateway was restarted', async () => {
    const id: string = (await gateway.push(fresh())).body.job.id
    const waiting: string = (await gateway.push(queue)).body.job.id
    expect((await fetchOne(gateway, queue)).id).toBe(id)
    await gateway.restart()
    expect((await fetchOne(gateway, queue)).id).toBe(waiting)
    expect(await gateway.fetch([queue])).toEqual([])
    expect((await gateway.ack(id)).status).toBe(200)
    expect((await gateway.ack(waiting)).status).toBe(200)
  })

  it('publishes every waiting job again when the queue was deleted by hand', async () => {
    const ids = new Set<string>()
    fresh()
    for (let i = 0; i < 10; i++) ids.add((await gateway.push(queue)).body.job.id)
    const active = await fetchOne(gateway, queue)
    const connection = await amqp.connect(vhost.url)
    const channel = await connection.createChannel()
    await channel.deleteQueue(`ojs.queue.${queue}`)
    await connection.close()
    const got = new Set<string>([active.id])
    await eventually(async () => {
      for (const job of await gateway.fetch([queue], { count: 10, wait_ms: 500 })) got.add(job.id)
      return got.size >= 10
    })
    expect(got).toEqual(ids)
    expect((await gateway.ack(active.id)).status).toBe(200)
  })

  it('keeps a lease and its delivery through a forced disconnect', async () => {
    const id: string = (await gateway.push(fresh())).body.job.id
    expect((await fetchOne(gateway, queue)).id).toBe(id)
    await vhost.closeConnections()
    await eventually(async () => (await gateway.push(queue)).status === 201)
    expect((await fetchOne(gateway, queue)).id).not.toBe(id)
    expect((await gateway.ack(id)).status).toBe(200)
  })
})

function idTime(id: string): string {
  return new Date(Number.parseInt(id.replace('-', '').slice(0, 12), 16)).toISOString()
}
