import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { eventually, type TestGateway } from '../support/gateway/in-process.ts'
import { benchIn } from '../worker/harness.ts'
import { fetchOne, freshQueue, gatewayForAll, nack, untilBuffered, withChannel } from './harness.ts'

/** How many jobs the gateway holds that a rate limit keeps from FETCH. */
async function heldForRate(gateway: TestGateway, queue: string): Promise<number> {
  const { status, body } = await gateway.request('GET', `/ojs/v1/rate-limits/queue:${queue}`)
  return status === 200 ? body.waiting : 0
}

/** Longer than any test: nothing is given back because nobody has fetched for so long. */
const NEVER_IDLE = { idleMs: 600_000 }

/** Lets FETCH start one job of a queue, and none for the rest of a test. */
const RATE = { rate_limit: { max_per_second: 0.001 } }

async function pushBatch(
  gateway: TestGateway,
  queue: string,
  count: number,
  options: object = {},
): Promise<string[]> {
  const one = { type: 'test.job', args: [1], options: { queue, ...options } }
  const jobs = Array.from({ length: count }, () => one)
  const { status, body } = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  expect(status).toBe(201)
  return body.jobs.map(({ id }: { id: string }) => id)
}

describe.each([
  ['classic', '-10'],
  ['quorum', '0'],
])('a queue with HTTP and native workers (%s, consumer priority %s)', (type, priority) => {
  const env = { OJS_QUEUE_TYPE: type, OJS_CONSUMER_PRIORITY: priority }
  const { vhost, gateway } = gatewayForAll(env, NEVER_IDLE)
  const stage = benchIn(vhost)

  it('gives a slow HTTP worker no more than it asks for, and the rest to the native one', async () => {
    const queue = freshQueue()
    const done = { http: 0, native: 0 }
    const isOver = () => done.http + done.native >= 60
    // Before there is another consumer: this consumer has room for 32.
    const waiting = gateway.fetch([queue], { wait_ms: 20_000 })
    await gateway.push(queue)
    for (const { id } of await waiting) await gateway.ack(id)
    const http = (async () => {
      while (!isOver()) {
        const jobs = await gateway.fetch([queue], { wait_ms: 1_000 })
        for (const { id } of jobs) {
          await sleep(500)
          await gateway.ack(id)
          done.http += 1
        }
      }
    })()
    const handler = async () => {
      await sleep(20)
      done.native += 1
    }
    await stage.start({ queues: [queue], concurrency: 1 }, { 'test.job': handler })
    await pushBatch(gateway, queue, 60)
    await eventually(isOver)
    await http
    // By hand 3 or 4 in 1.5 to 2 s; while it had whole consumer channels, 33 or more in 17 to 30 s.
    expect(done.http).toBeLessThan(20)
  })

  it('gives back what is held for nobody to a consumer that comes later, in order', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    const leased = await fetchOne(gateway, queue)
    const ids = await pushBatch(gateway, queue, 10)
    await untilBuffered(gateway, queue, 10)
    const came: string[] = []
    await withChannel(vhost.url, async (channel) => {
      await channel.consume(`ojs.queue.${queue}`, (message) => {
        came.push(String(message?.properties.messageId))
      })
      await eventually(() => came.length >= ids.length)
    })
    expect(came).toEqual(ids)
    expect((await gateway.ack(leased.id)).status).toBe(200)
  })

  it('leaves jobs that a rate limit keeps from FETCH to the native worker, while FETCHes go on', async () => {
    const queue = freshQueue()
    const ids = new Set(await pushBatch(gateway, queue, 40, RATE))
    const done = { http: 0, native: new Set<string>() }
    const isOver = () => done.http + done.native.size >= ids.size
    let isStopped = false
    const http = (async () => {
      while (!isStopped) {
        for (const { id } of await gateway.fetch([queue], { wait_ms: 500 })) {
          await gateway.ack(id)
          done.http += 1
        }
      }
    })()
    try {
      await eventually(async () => (await heldForRate(gateway, queue)) === ids.size - 1)
      const handler = async ({ job }: { job: { id: string } }) => void done.native.add(job.id)
      await stage.start({ queues: [queue], concurrency: 1 }, { 'test.job': handler })
      await eventually(isOver)
    } finally {
      isStopped = true
      await http
    }
    expect(done.http).toBe(1)
  })
})

describe('a queue with HTTP workers only', () => {
  const { vhost, gateway } = gatewayForAll({}, { idleMs: 500 })

  it('gets back what a rate limit keeps from FETCH when the FETCHes end', async () => {
    const queue = freshQueue()
    const ids = await pushBatch(gateway, queue, 5, RATE)
    expect((await fetchOne(gateway, queue)).id).toBe(ids[0])
    await eventually(async () => {
      expect(await gateway.fetch([queue], { wait_ms: 200 })).toEqual([])
      return (await heldForRate(gateway, queue)) === 4
    })
    const came: string[] = []
    await withChannel(vhost.url, async (channel) => {
      await eventually(
        async () => (await channel.checkQueue(`ojs.queue.${queue}`)).messageCount === 4,
      )
      await channel.consume(`ojs.queue.${queue}`, (message) => {
        came.push(String(message?.properties.messageId))
      })
      await eventually(() => came.length >= 4)
    })
    expect(came).toEqual(ids.slice(1))
    expect(await heldForRate(gateway, queue)).toBe(0)
  })

  it('gets back what is held beyond the demand, although FETCHes go on', async () => {
    const queue = freshQueue()
    const ids = await pushBatch(gateway, queue, 40)
    await withChannel(vhost.url, (channel) =>
      eventually(async () => {
        const job = await fetchOne(gateway, queue)
        expect(job.id).toBe(ids[0])
        await nack(gateway, job.id, {}, { requeue: true })
        return (await channel.checkQueue(`ojs.queue.${queue}`)).messageCount >= 30
      }),
    )
    // In order, and all of them: the consumers grow again with the demand.
    const all: string[] = []
    while (all.length < ids.length) {
      const jobs = await gateway.fetch([queue], { count: 7, wait_ms: 5_000 })
      all.push(...jobs.map((job) => job.id))
    }
    expect(all).toEqual(ids)
  })
})
