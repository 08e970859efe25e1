import type { ConsumeMessage } from 'amqplib'
import { v7 } from 'uuid'
import { expect, test } from 'vitest'
import { type Clock, systemClock } from '../../src/clock.ts'
import { freshQueue, gatewayForAll, withChannel } from './harness.ts'

const COUNT = 10_000
const PAGE = 1_000

const HOUR_MS = 3_600_000

/** Everything is stored before anything is due, however slow the machine is. */
let aheadMs = 0
const system = systemClock()
const clock: Clock = { now: () => system.now(), wall: () => system.wall() + aheadMs }

const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: 'quorum' }, { clock })

/**
 * By order, not by time: on a slow machine everything takes longer. One queue's ten thousand keep the
 * gateway busy for a second, in which it answers others and publishes what is due for them.
 */
test('10,000 jobs that are due at one instant keep neither clients nor other queues waiting', async () => {
  const [many, one] = [freshQueue(), freshQueue()]
  await Promise.all([many, one].map((queue) => gateway.push(queue)))
  const dueAt = Date.now() + HOUR_MS
  for (let i = 0; i < COUNT; i += PAGE) await schedule(many, PAGE, dueAt)
  await schedule(one, 1, dueAt + 1)

  const seen = new Set<string>()
  let seenBefore = -1
  let answers = 0
  const onScheduled = (queue: string, id: string) => {
    if (queue === one) seenBefore = seen.size
    else seen.add(id)
    return seen.size === COUNT && seenBefore >= 0
  }
  const asking = async () => {
    while (seen.size < COUNT) {
      await gateway.request('GET', '/ojs/v1/health')
      if (seen.size > 0 && seen.size < COUNT) answers += 1
    }
  }
  await Promise.all([consumed([many, one], onScheduled), asking()])
  expect(seenBefore).toBeLessThan(0.75 * COUNT)
  expect(answers).toBeGreaterThan(10)
}, 60_000)

/** Consumes natively until `onScheduled` says that it is enough; now everything becomes due. */
async function consumed(
  queues: readonly string[],
  onScheduled: (queue: string, id: string) => boolean,
): Promise<void> {
  await withChannel(vhost.url, async (channel) => {
    let resolve = () => {}
    const enough = new Promise<void>((done) => {
      resolve = done
    })
    const take = (queue: string) => (message: ConsumeMessage | null) => {
      const { headers = {}, messageId } = message?.properties ?? {}
      // Not those that only made the queues.
      const isScheduled = 'x-ojs-scheduled-at' in headers
      if (isScheduled && onScheduled(queue, String(messageId))) resolve()
    }
    for (const queue of queues) {
      await channel.consume(`ojs.queue.${queue}`, take(queue), { noAck: true })
    }
    aheadMs = HOUR_MS + 1
    await enough
  })
}

async function schedule(queue: string, count: number, dueAt: number): Promise<void> {
  const options = { queue, scheduled_at: new Date(dueAt).toISOString() }
  const job = () => ({ id: v7(), type: 'test.job', args: [], options })
  const jobs = Array.from({ length: count }, job)
  const { status, body } = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  expect(status, JSON.stringify(body).slice(0, 500)).toBe(201)
}
