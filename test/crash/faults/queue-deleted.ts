import { describe, expect, test } from 'vitest'
import type { Admin } from '../../broker/harness.ts'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import {
  fetched,
  metric,
  nack,
  newQueue,
  openStage,
  PROFILES,
  pushed,
  restOf,
  useStage,
} from './stage.ts'

const CANCELS = 'ojs_amqp_consumer_cancels_total'

export function queueDeletedFaults(node: PrivateNode): void {
  describe.each(PROFILES)('consumer cancelled by the server: queue deleted (%s)', (profile) => {
    // So long that no consumer is cancelled for being idle on a busy machine, only by the server.
    const overrides = { idleMs: 600_000 }
    const stage = useStage(node, { env: { OJS_QUEUE_TYPE: profile }, overrides })

    test('its waiting jobs are published again; leases and retries go on', async () => {
      const { gateway, admin } = stage()
      const queue = newQueue()
      const options = { retry: { initial_interval_ms: 1_500, jitter: false } }
      const ids = await pushed(gateway, queue, 6, { options })
      const [active, retried, ...waiting] = ids as [string, string, ...string[]]
      await fetched(gateway, queue, 2, { worker_id: 'w' })
      expect((await nack(gateway, retried)).body.state).toBe('retryable')
      // The consumer holds the jobs that nobody has fetched; on a slow machine the retry too.
      await eventually(
        async () => (await metric(gateway, 'ojs_amqp_buffered', { queue })) >= waiting.length,
      )
      await admin.channel.deleteQueue(`ojs.queue.${queue}`)

      await eventually(async () => (await metric(gateway, CANCELS, { queue })) === 1)
      // The retry may be due before or after the others. Its retry queue was not deleted, and leads to the new
      // job queue by the same binding.
      const again = await fetched(gateway, queue, waiting.length + 1)
      const isRetried = ({ id }: { id: string }) => id === retried
      expect(again.filter((job) => !isRetried(job))).toEqual(
        waiting.map((id) => ({ id, attempt: 1 })),
      )
      expect(again.filter(isRetried)).toEqual([{ id: retried, attempt: 2 }])
      for (const { id } of again) expect((await gateway.ack(id)).status).toBe(200)
      expect((await gateway.ack(active, { worker_id: 'w', attempt: 1 })).status).toBe(200)
      expect(await restOf(gateway, queue)).toEqual([])
    })

    test('a waiting FETCH gets the next job', async () => {
      const { gateway, admin } = stage()
      const queue = newQueue()
      await pushed(gateway, queue, 1)
      await fetched(gateway, queue, 1)
      const waiting = gateway.fetch([queue], { wait_ms: 15_000 })
      await eventually(async () => (await metric(gateway, 'ojs_fetch_waiters', { queue })) === 1)
      await admin.channel.deleteQueue(`ojs.queue.${queue}`)
      const [next] = await pushed(gateway, queue, 1)
      expect(await waiting).toMatchObject([{ id: next, attempt: 1 }])
      expect(await metric(gateway, CANCELS, { queue })).toBe(1)
    })
  })
}

/**
 * RabbitMQ 3.10.8 holds back a channel with more than 32 publishes under way to a quorum queue, and with it
 * the reader of its connection, until the queue says that it may go on. A queue that is deleted meanwhile
 * never does. That happens in every second burst or so; otherwise RabbitMQ ends the connection (541).
 */
export function deletedInBurstFaults(node: PrivateNode): void {
  test('quorum queue deleted in a burst, after which RabbitMQ may stop reading: other queues go on', async () => {
    const env = { OJS_QUEUE_TYPE: 'quorum', OJS_PUBLISH_TIMEOUT_MS: '2000' }
    const { gateway, admin } = await openStage(node, { env })
    // A confirm may take longer than the publish timeout on a busy machine.
    const untilPushed = (queue: string) =>
      eventually(async () => (await gateway.push(queue)).status === 201, 60_000)
    await untilPushed('other')
    let outageMs = 0
    for (let i = 0; i < BURSTS && outageMs < STALL_MS; i++) {
      const queue = newQueue()
      await untilPushed(queue)
      const burst = Promise.all(Array.from({ length: 20 }, () => pushBatch(gateway, queue)))
      await eventually(async () => (await depth(admin, queue)) > 1)
      await admin.channel.deleteQueue(`ojs.queue.${queue}`)
      await burst
      const since = performance.now()
      await untilPushed('other')
      outageMs = performance.now() - since
    }
  })
}

const BURSTS = 6
/** A connection that RabbitMQ has ended is back before that; after a stall it takes longer. */
const STALL_MS = 4_000

async function pushBatch(gateway: TestGateway, queue: string): Promise<number> {
  const job = { type: 'test.job', args: [1], options: { queue } }
  const body = { jobs: Array.from({ length: 50 }, () => job) }
  return (await gateway.request('POST', '/ojs/v1/jobs/batch', body)).status
}

async function depth({ channel }: Admin, queue: string): Promise<number> {
  return (await channel.checkQueue(`ojs.queue.${queue}`)).messageCount
}
