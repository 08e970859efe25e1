import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import type { PrivateNode, Vhost } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { fetched, metric, nack, openStage, operate, pushed, restOf } from './stage.ts'

const ALL = '.*'
const NONE = '^$'

export function permissionFaults(node: PrivateNode): void {
  const allow = ({ name }: Vhost, [configure, write, read]: [string, string, string]) =>
    operate(node, `/permissions/${name}/${name}`, { configure, write, read })

  describe('permissions revoked while the gateway runs', () => {
    test('to configure: a PUSH to a new queue is 503, the others go on', async () => {
      const { gateway, vhost } = await openStage(node)
      await pushed(gateway, 'q', 1)
      await allow(vhost, [NONE, ALL, ALL])
      for (let i = 0; i < 2; i++) await expectRefused(gateway, 'new')
      await expectServing(gateway, 1)
      await allow(vhost, [ALL, ALL, ALL])
      const [fresh] = await pushed(gateway, 'new', 1)
      expect(await fetched(gateway, 'new', 1)).toEqual([{ id: fresh, attempt: 1 }])
    })

    test('to configure, and the connections closed: existing queues are used, and warnings tell why', async () => {
      const { gateway, vhost } = await openStage(node)
      await pushed(gateway, 'q', 1)
      await allow(vhost, ['^ojs\\.system\\.(owner$|gateways)', ALL, ALL])
      await reconnected(gateway, vhost)
      await expectServing(gateway, 1)
      await expectRefused(gateway, 'new')
      const { body } = await gateway.request('GET', '/ojs/v1/health')
      expect(body.status).toBe('ok')
      const codes = body.warnings.map(({ code }: { code: string }) => code)
      expect(new Set(codes)).toEqual(new Set(['access_refused']))
      await allow(vhost, [ALL, ALL, ALL])
      await pushed(gateway, 'new', 1)
    })

    test('to publish, and the connections closed: PUSH is 503, FETCH and ACK go on', async () => {
      const { gateway, vhost } = await openStage(node)
      const [active] = await pushed(gateway, 'q', 2)
      await fetched(gateway, 'q', 1)
      await allow(vhost, [ALL, '^ojs\\.(queue|system)', ALL])
      await reconnected(gateway, vhost)
      // RabbitMQ closes the channel of each such publish, and the gateway opens another one.
      for (let i = 0; i < 5; i++) {
        const id = v7()
        const { status, body } = await gateway.push('q', { id })
        expect(status).toBe(503)
        // Also while no channel is open.
        expect(body.error.details).toMatchObject({ reason: 'access_refused' })
        expect((await gateway.get(id)).status).toBe(404)
      }
      expect((await gateway.ack(String(active))).status).toBe(200)
      expect(await fetched(gateway, 'q', 1)).toHaveLength(1)
      await allow(vhost, [ALL, ALL, ALL])
      await eventually(async () => (await gateway.push('q')).status === 201)
      expect(await fetched(gateway, 'q', 1)).toHaveLength(1)
      expect(await restOf(gateway, 'q')).toEqual([])
    })
  })
}

async function expectRefused(gateway: TestGateway, queue: string): Promise<void> {
  const { status, body } = await gateway.push(queue)
  expect(status).toBe(503)
  expect(body.error).toMatchObject({
    code: 'backend_error',
    retryable: true,
    details: { reason: 'access_refused' },
  })
}

/**
 * Does a PUSH, FETCH, ACK and a retry, whose retry queue may not be declared, so that the ledger holds it.
 * `waiting`: how many jobs are in the queue already.
 */
async function expectServing(gateway: TestGateway, waiting: number): Promise<void> {
  const options = { retry: { initial_interval_ms: 50, jitter: false } }
  const jobs = [
    ...(await fetched(gateway, 'q', waiting)),
    ...(await pushed(gateway, 'q', 2, { options })).map((id) => ({ id, attempt: 1 })),
  ]
  const [bad] = (await fetched(gateway, 'q', 2)).slice(-1)
  expect((await nack(gateway, String(bad?.id))).body.state).toBe('retryable')
  expect(await fetched(gateway, 'q', 1)).toEqual([{ id: bad?.id, attempt: 2 }])
  for (const { id } of jobs) expect((await gateway.ack(id)).status).toBe(200)
}

async function reconnected(gateway: TestGateway, vhost: Vhost): Promise<void> {
  const before = await metric(gateway, 'ojs_amqp_reconnections_total')
  await vhost.closeConnections()
  await eventually(async () => {
    const { body } = await gateway.request('GET', '/ojs/v1/health')
    const attempts = (await metric(gateway, 'ojs_amqp_reconnections_total')) - before
    return attempts >= 3 && body.backend.status === 'connected'
  })
}
