import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { fetched, metric, openStage, pushBatch, pushed, stateOf } from './stage.ts'

const LIMIT = 65_536
const LARGE = ['x'.repeat(LIMIT)]
/** The default of RabbitMQ 3.10. */
const USUAL = 134_217_728

export function tooLargeFaults(node: PrivateNode): void {
  describe("job that is larger than RabbitMQ's max_message_size", () => {
    // RabbitMQ 3.10 reads the limit when a channel opens, so it is set before the gateway starts.
    beforeAll(() => limit(node, LIMIT))
    afterAll(() => limit(node, USUAL))

    test('PUSH and batch are 413, and nothing of it is kept', async () => {
      const { gateway } = await openStage(node)
      await pushed(gateway, 'q', 1)
      for (let i = 0; i < 2; i++) {
        const id = v7()
        const { status, body } = await gateway.push('q', { id, args: LARGE })
        expect(status).toBe(413)
        const details = { reason: 'message_too_large', queue: 'q' }
        expect(body.error).toMatchObject({ code: 'invalid_request', retryable: false, details })
        expect((await gateway.get(id)).status).toBe(404)
      }
      const batch = [jobOf([]), jobOf(LARGE), jobOf([])]
      const refused = await pushBatch(gateway, batch)
      expect(refused.status).toBe(413)
      expect(refused.body.error.details).toMatchObject({ reason: 'message_too_large', index: 1 })
      for (const { id } of batch) expect((await gateway.get(id)).status).toBe(404)
      // RabbitMQ closes the channel, with all that is under way on it, but only the first time.
      const closed = { connection: 'publish', code: '406' }
      expect(await metric(gateway, 'ojs_amqp_channel_errors_total', closed)).toBe(1)
    })

    test('a batch that is the first to meet the limit is 413, not 503 because of its other jobs', async () => {
      const { gateway } = await openStage(node)
      const refused = await pushBatch(gateway, [jobOf([]), jobOf(LARGE), jobOf([])])
      expect(refused.status).toBe(413)
      expect(refused.body.error.details).toMatchObject({ reason: 'message_too_large', index: 1 })
    })

    test('a schedule that is too large holds up no other job of its queue when it is due', async () => {
      const { gateway } = await openStage(node)
      const later = (ms: number) => new Date(Date.now() + ms).toISOString()
      const at = (ms: number) => ({ options: { queue: 'q', scheduled_at: later(ms) } })
      const [large] = await pushed(gateway, 'q', 1, { args: LARGE, ...at(2_000) })
      const small = await pushed(gateway, 'q', 3, at(4_000))
      const jobs = await fetched(gateway, 'q', 3)
      expect(new Set(jobs.map(({ id }) => id))).toEqual(new Set(small))
      expect(await stateOf(gateway, String(large))).toBe('available')
    })
  })
}

function jobOf(args: unknown[]) {
  return { id: v7(), type: 'test.job', args, options: { queue: 'q' } }
}

/** Sets both places, because RabbitMQ from 4 on reads the limit from another one. */
async function limit(node: PrivateNode, bytes: number): Promise<void> {
  const name = 'max_message_size'
  await node.evaluate(
    `application:set_env(rabbit, ${name}, ${bytes}), persistent_term:put(${name}, ${bytes})`,
  )
}
