import type { ConsumeMessage } from 'amqplib'
import { v7 } from 'uuid'
import { expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/clock.ts'
import { isOnPostgres } from '../../support/gateway/test-ledger.ts'
import { freshQueue, gatewayForAll, withChannel } from '../harness.ts'

const COUNT = 10_000
const PAGE = 1_000

const HOUR_MS = 3_600_000

/** The clock is moved by hand, so that everything is stored before anything is due on a slow machine too. */
let aheadMs = 0
const system = systemClock()
const clock: Clock = { now: () => system.now(), wall: () => system.wall() + aheadMs }

const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: 'quorum' }, { clock })

/**
 * Measures order instead of time, since everything takes longer on a slow machine. The 10,000 jobs of one
 * queue keep the gateway busy for a second, in which it answers requests and publishes for other queues.
 */
test('10,000 jobs that are due at one instant delay neither requests nor the jobs of other queues', async () => {
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
  // On PostgreSQL jobs come due no faster than they are published, and that one is the last to be due.
  if (!isOnPostgres) expect(seenBefore).toBeLessThan(0.75 * COUNT)
  expect(answers).toBeGreaterThan(10)
})

/** Lets everything become due, and consumes natively until `onScheduled` returns true. */
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
      // Skips the two jobs that were pushed to create the queues.
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
