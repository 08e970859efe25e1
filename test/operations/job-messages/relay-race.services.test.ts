import { expect, test } from 'vitest'
import { freshQueue, gatewayForAll, withChannel } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()

/**
 * Jobs that become due are committed together with jobs that are pushed at the same moment. The relay must
 * not see the pushed jobs before their own PUSH has marked them as being sent. Once it published them twice,
 * the second publish was refused, and the producer was told 503 for a job that ran.
 */
test('a PUSH in the commit that wakes the relay is published once, and answered 201', async () => {
  const queue = freshQueue()
  const soon = (ms: number) => ({ scheduled_at: new Date(Date.now() + ms).toISOString() })
  const scheduled = Array.from({ length: 60 }, (_, i) =>
    gateway.push(queue, { options: soon(300 + i * 25) }),
  )
  const endAt = performance.now() + 2_000
  const statuses = new Map<number, number>()
  const producer = async () => {
    while (performance.now() < endAt) {
      const { status } = await gateway.push(queue)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all([...scheduled, ...Array.from({ length: 8 }, producer)])
  expect([...statuses.keys()]).toEqual([201])
  const jobs = scheduled.length + (statuses.get(201) ?? 0)
  const stats = () => gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)
  await expect.poll(async () => (await stats()).body.stats.available).toBe(jobs)
  // All are published by now, or about to be: one that was published twice would be one too many.
  const ready = () =>
    withChannel(vhost.url, async (channel) => {
      return (await channel.checkQueue(`ojs.queue.${queue}`)).messageCount
    })
  await expect.poll(ready).toBe(jobs)
})
