import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isRabbitmqFrom, type PrivateNode } from '../../support/broker/rabbit.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { fetched, metric, openStage, PROFILES, pushed, restOf, stateOf } from './stage.ts'

/** RabbitMQ 4.3 has the timeout in quorum queues only. */
const TIMED = isRabbitmqFrom(4, 3) ? (['quorum'] as const) : PROFILES

export function deliveryTimeoutFaults(node: PrivateNode): void {
  describe("channel closed by the broker's delivery timeout", () => {
    // RabbitMQ reads both when a channel opens, so they are set before the gateway starts. A channel that is
    // not closed by the next tick is closed once more. If the first close was answered meanwhile, that is an
    // error of the whole connection: the interval has to outlast a busy machine.
    beforeAll(() => limits(node, { consumer_timeout: 1_000, channel_tick_interval: 2_000 }))
    afterAll(() => limits(node, { consumer_timeout: 1_800_000, channel_tick_interval: 60_000 }))

    test.each(TIMED)('does not end leases, and no job runs twice (%s)', async (profile) => {
      const { gateway } = await openStage(node, { env: { OJS_QUEUE_TYPE: profile } })
      const [early, late, third] = (await pushed(gateway, 'q', 3)) as [string, string, string]
      const first = await fetched(gateway, 'q', 2, { worker_id: 'w' })
      expect(first).toEqual([
        { id: early, attempt: 1 },
        { id: late, attempt: 1 },
      ])
      // All three are deliveries of the same channel; no worker has the third one.
      await eventually(async () => (await metric(gateway, 'ojs_amqp_deliveries_lost_total')) >= 3)
      expect(await metric(gateway, 'ojs_amqp_channel_errors_total')).toBeGreaterThanOrEqual(1)
      expect(await stateOf(gateway, early)).toBe('active')

      // This ACK comes before the job message is back; the job message then belongs to a job that is over.
      expect((await gateway.ack(early, { worker_id: 'w', attempt: 1 })).status).toBe(200)
      // The third job message comes back behind the other two, whose jobs no worker gets again.
      expect(await fetched(gateway, 'q', 1)).toEqual([{ id: third, attempt: 1 }])
      expect((await gateway.ack(third)).status).toBe(200)
      // This ACK comes after the job message is back, when only the ledger has the lease.
      expect((await gateway.ack(late, { worker_id: 'w', attempt: 1 })).status).toBe(200)

      const [fresh] = await pushed(gateway, 'q', 1)
      expect(await fetched(gateway, 'q', 1)).toEqual([{ id: fresh, attempt: 1 }])
      expect((await gateway.ack(String(fresh))).status).toBe(200)
      expect(await restOf(gateway, 'q')).toEqual([])
    })
  })
}

async function limits(node: PrivateNode, values: Record<string, number>): Promise<void> {
  const calls = Object.entries(values).map(
    ([name, value]) => `application:set_env(rabbit, ${name}, ${value})`,
  )
  await node.evaluate(calls.join(', '))
}
