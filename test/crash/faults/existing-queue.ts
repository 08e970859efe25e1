import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import type { Admin } from '../../broker/harness.ts'
import { runSeedExample } from '../../support/broker/pika.ts'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import type { TestGateway } from '../../support/gateway/in-process.ts'
import { fetched, nack, openStage, PROFILES, pushed, restOf, stateOf } from './stage.ts'

/** A queue that was declared with other arguments is kept, used, and reported as a warning. */
export function existingQueueFaults(node: PrivateNode): void {
  describe('queue that exists with other arguments', () => {
    test('as the seed declares it, is used with a warning in the profile quorum', async () => {
      const native = v7()
      const { gateway } = await openStage(node, {
        env: { OJS_QUEUE_TYPE: 'quorum' },
        prepare: (_, vhost) => runSeedExample(vhost.url, native),
      })
      await expectServing(gateway, 'email', [native])
      expect(await warningsOf(gateway)).toEqual([
        {
          code: 'queue_differs',
          message:
            "queue 'ojs.queue.email' exists with other arguments and is not changed: it is a classic queue, expected quorum ('x-max-priority' is 10, expected none).",
          details: {
            entity: 'ojs.queue.email',
            // RabbitMQ names only the first difference, so the warning has all arguments that we would declare.
            argument: 'x-max-priority',
            expected: 'none',
            actual: '10',
            ours: {
              'x-queue-type': 'quorum',
              'x-dead-letter-exchange': 'ojs.exchange.dlx',
              'x-dead-letter-routing-key': 'email',
              'x-dead-letter-strategy': 'at-least-once',
              'x-overflow': 'reject-publish',
              'x-delivery-limit': 1_000_000,
            },
          },
        },
      ])
    })

    test('as the seed declares it, is used without a warning in the profile classic', async () => {
      const native = v7()
      const prepare = (_: Admin, { url }: { url: string }) => runSeedExample(url, native)
      const { gateway } = await openStage(node, { prepare })
      await expectServing(gateway, 'email', [native])
      expect(await warningsOf(gateway)).toEqual([])
    })

    test.each(PROFILES)(
      'without a dead letter exchange, is used with a warning (%s)',
      async (profile) => {
        const { gateway, admin } = await openStage(node, {
          env: { OJS_QUEUE_TYPE: profile },
          prepare: ({ channel }) =>
            channel.assertQueue('ojs.queue.bare', {
              durable: true,
              arguments: { 'x-queue-type': profile },
            }),
        })
        await expectServing(gateway, 'bare', [])
        const [warning, ...others] = await warningsOf(gateway)
        expect(others).toEqual([])
        expect(warning).toMatchObject({
          code: 'queue_differs',
          details: {
            entity: 'ojs.queue.bare',
            argument: 'x-dead-letter-exchange',
            expected: 'ojs.exchange.dlx',
            actual: 'none',
          },
        })
        // Without the exchange, RabbitMQ copies no dead job to the dead letter queue; the ledger has the job.
        expect((await admin.channel.checkQueue('ojs.queue.dlx.bare')).messageCount).toBe(0)
        const listed = await gateway.request('GET', '/ojs/v1/dead-letter?queue=bare')
        expect(listed.body.jobs).toHaveLength(1)
      },
    )
  })
}

/** Does a PUSH, FETCH, ACK, retry and dead letter. `waiting`: ids that are in the queue already. */
async function expectServing(gateway: TestGateway, queue: string, waiting: string[]) {
  const retry = { initial_interval_ms: 20, jitter: false, max_attempts: 2 }
  const [good, bad] = (await pushed(gateway, queue, 2, { options: { retry } })) as [string, string]
  expect((await gateway.request('GET', '/ojs/v1/health')).body.status).toBe('ok')
  const first = await fetched(gateway, queue, waiting.length + 2)
  expect(first).toEqual([...waiting, good, bad].map((id) => ({ id, attempt: 1 })))
  for (const id of [...waiting, good]) expect((await gateway.ack(id)).status).toBe(200)
  expect((await nack(gateway, bad)).body.state).toBe('retryable')
  expect(await fetched(gateway, queue, 1)).toEqual([{ id: bad, attempt: 2 }])
  expect((await nack(gateway, bad)).body.state).toBe('discarded')
  expect(await restOf(gateway, queue)).toEqual([])
  expect(await stateOf(gateway, good)).toBe('completed')
}

async function warningsOf(gateway: TestGateway): Promise<unknown[]> {
  return (await gateway.request('GET', '/ojs/v1/health')).body.warnings
}
