import { setTimeout as sleep } from 'node:timers/promises'
import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { benchOfFile, gate, publishJob, ready, until } from '../harness.ts'

const { on } = benchOfFile()

describe('success in a native worker', () => {
  test('is reported with the result, then acknowledged', async () => {
    const { queue, desk, worker, jobQueue } = await on.setUp({
      'test.job': ({ args, attempt, job }) => ({ args, attempt, tenant: job['x_tenant'] }),
    })
    const id = await publishJob(on.admin, queue, { envelope: { args: ['a', 2], x_tenant: 't' } })
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([
      {
        event: 'completed',
        generation: 0,
        attempt: 1,
        result: { args: ['a', 2], attempt: 1, tenant: 't' },
      },
    ])
    await worker.stop()
    // A job message that was not acknowledged would be here again.
    expect(await ready(on.admin, jobQueue)).toBe(0)
  })

  test('is reported with the time at which the handler began', async () => {
    let begun = 0
    const { queue, desk } = await on.setUp({
      'test.job': async () => {
        begun = Date.now()
        await sleep(5)
        return Date.now()
      },
    })
    const before = Date.now()
    const id = await publishJob(on.admin, queue)
    await until(desk, id)
    const [end] = desk.ends(id)
    const startedAt = Date.parse(end?.started_at ?? '')
    expect(startedAt).toBeGreaterThanOrEqual(before)
    expect(startedAt).toBeLessThanOrEqual(begun)
    expect(Date.parse(end?.at ?? '')).toBeGreaterThanOrEqual(Number(end?.result))
  })

  test('is not acknowledged if RabbitMQ does not confirm the report', async () => {
    const queue = await on.queue()
    const control = `ojs.queue.control.${queue}`
    await on.admin.channel.deleteQueue(control)
    const full = { 'x-queue-type': 'classic', 'x-max-length': 1, 'x-overflow': 'reject-publish' }
    await on.admin.channel.assertQueue(control, { arguments: full })
    await on.admin.channel.bindQueue(control, 'ojs.exchange.direct', control)
    await on.admin.publish(control, ['filler'])
    const ran = gate()
    const given = { queues: [queue], answerTimeoutMs: 50 }
    const worker = await on.start(given, { 'test.job': () => ran.open() })
    const id = await publishJob(on.admin, queue)
    await ran.opened
    await worker.stop()
    expect(await on.admin.takeAll(`ojs.queue.${queue}`)).toEqual([id])
  })

  test('of 500 jobs is reported in fewer than 250 messages', async () => {
    const { queue, desk, jobQueue } = await on.setUp({ 'test.job': () => 1 }, { concurrency: 100 })
    const ids = await Promise.all(Array.from({ length: 500 }, () => publishJob(on.admin, queue)))
    await eventually(() => ids.every((id) => desk.ends(id).length === 1))
    expect(desk.reports).toBeLessThan(250)
    expect(await ready(on.admin, jobQueue)).toBe(0)
  })

  test('of a long job is preceded by a report of its start', async () => {
    const end = gate()
    const { queue, desk } = await on.setUp({ 'test.job': () => end.opened })
    const id = await publishJob(on.admin, queue)
    await eventually(() => desk.of(id).length === 1)
    expect(desk.of(id)).toMatchObject([{ event: 'started', attempt: 1, generation: 0 }])
    end.open()
    await until(desk, id)
  })
})

describe('prefetch of a native worker', () => {
  test('works with a concurrency beyond the 16 bits of AMQP', async () => {
    const { queue, desk } = await on.setUp({ 'test.job': () => 1 }, { concurrency: 100_000 })
    const id = await publishJob(on.admin, queue)
    await until(desk, id)
  })

  test('is its concurrency: further jobs stay in the queue for other workers', async () => {
    const end = gate()
    const { queue, jobQueue, desk } = await on.setUp(
      { 'test.job': () => end.opened },
      { concurrency: 2 },
    )
    const ids = await Promise.all(Array.from({ length: 7 }, () => publishJob(on.admin, queue)))
    await eventually(() => desk.events.length === 2)
    expect(await ready(on.admin, jobQueue)).toBe(5)
    const other = new Set<string>()
    await on.start(
      { queues: [queue], concurrency: 5 },
      { 'test.job': ({ job }) => other.add(job.id) },
    )
    await eventually(() => other.size === 5)
    end.open()
    await eventually(() => ids.every((id) => desk.ends(id).length === 1))
  })

  test('for two queues never lets more jobs run than its concurrency', async () => {
    const queues = [await on.queue(), await on.queue()]
    const desks = await Promise.all(queues.map((queue) => on.desk(queue)))
    let running = 0
    let most = 0
    const handler = async () => {
      running += 1
      most = Math.max(most, running)
      // The first ones wait until every slot is taken, however slowly the jobs come.
      await eventually(() => most >= 3)
      await new Promise((resolve) => setTimeout(resolve, 2))
      running -= 1
    }
    await on.start({ queues, concurrency: 3 }, { 'test.job': handler })
    const targets = queues.flatMap((queue) => Array<string>(20).fill(queue))
    const ids = await Promise.all(targets.map((queue) => publishJob(on.admin, queue)))
    await eventually(() => ids.every((id) => desks.some((desk) => desk.ends(id).length > 0)))
    expect(most).toBe(3)
  })
})

describe('a foreign job in a native worker', () => {
  test('runs with the defaults that the gateway would have added', async () => {
    const { queue, desk } = await on.setUp({ 'test.job': ({ job }) => job })
    const id = v7()
    const body = { id, type: 'test.job', args: ['x'], retry: { max_attempts: 5 } }
    const properties = { messageId: id, type: 'test.job', persistent: true }
    on.admin.channel.publish(
      'ojs.exchange.direct',
      queue,
      Buffer.from(JSON.stringify(body)),
      properties,
    )
    await until(desk, id)
    expect(desk.ends(id)[0]?.result).toMatchObject({
      ...body,
      queue,
      attempt: 1,
      max_attempts: 5,
      timeout_ms: 30_000,
      state: 'active',
    })
  })

  test('that is no valid OJS job goes to the dead letter queue', async () => {
    const { queue } = await on.setUp({ 'test.job': () => 1 })
    const hostile = ['not json', '[]', '{"id":"x","type":"test.job","args":{}}', '{"args":[]}']
    for (const [index, text] of hostile.entries()) {
      const properties = { messageId: `hostile-${index}` }
      on.admin.channel.publish('ojs.exchange.direct', queue, Buffer.from(text), properties)
    }
    await eventually(
      async () => (await ready(on.admin, `ojs.queue.dlx.${queue}`)) === hostile.length,
    )
  })
})

describe('the shutdown of a native worker', () => {
  test('gives back a running job after the grace period', async () => {
    const begun = gate()
    const { queue, worker, jobQueue } = await on.setUp({
      'test.job': ({ signal }) => {
        begun.open()
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason))
        })
      },
    })
    const id = await publishJob(on.admin, queue)
    await begun.opened
    expect(await worker.stop()).toEqual({ abandoned: [id] })
    expect(await on.admin.takeAll(jobQueue)).toEqual([id])
  })

  test('waits for a running job, reports it, and leaves a later one in the queue', async () => {
    const begun = gate()
    const end = gate()
    const { queue, desk, worker, jobQueue } = await on.setUp(
      {
        'test.job': async () => {
          begun.open()
          await end.opened
          return 'done'
        },
      },
      { gracePeriod: 10_000, concurrency: 1 },
    )
    const id = await publishJob(on.admin, queue)
    await begun.opened
    const stopping = worker.stop()
    const later = await publishJob(on.admin, queue)
    end.open()
    expect(await stopping).toEqual({ abandoned: [] })
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([{ event: 'completed', result: 'done' }])
    expect(await on.admin.takeAll(jobQueue)).toEqual([later])
  })
})
