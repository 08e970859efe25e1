import { v7 } from 'uuid'
import { describe, expect, onTestFinished, test } from 'vitest'
import { inOrder } from '../../support/broker/order.ts'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { type Answer, jobsOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { newQueue, PROFILES } from './stage.ts'

const KEY = { 'Idempotency-Key': 'order-4711' }

/** Uniqueness, and the memory of requests, are part of the commit that stores a job. */
export function uniqueFaults(node: PrivateNode): void {
  describe.each(PROFILES)('unique jobs (%s)', (profile) => {
    test('a gateway killed between commit and answer still knows what it has stored', async () => {
      const { gateway, proxy } = await open(node, profile)
      const { client } = gateway
      const queue = newQueue()
      const job = (args: unknown[], unique?: object) => ({
        id: v7(),
        type: 'test.job',
        args,
        options: { queue, ...(unique && { unique }) },
      })
      const replace = { on_conflict: 'replace' }
      const old = job(['c'], replace)
      expect((await client.push(old)).status).toBe(201)

      proxy.hold('to-broker')
      const unique = job(['a'], {})
      const keyed = job(['b'])
      const next = job(['c'], replace)
      const batch = { jobs: [job(['d']), job(['e'])] }
      const answers: Promise<Answer>[] = [
        client.push(unique),
        client.push(keyed, KEY),
        client.push(next),
        client.send('POST', '/ojs/v1/jobs/batch', batch, KEY),
      ]
      const committed = [unique, keyed, next, ...batch.jobs].map(({ id }) => id)
      await eventually(async () => {
        const found = await Promise.all(committed.map((id) => client.get(id)))
        return found.every(({ status }) => status === 200)
      })
      await gateway.kill9()
      expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([0, 0, 0, 0])
      proxy.cut()
      proxy.release('to-broker')
      await gateway.restart()
      await eventually(async () => (await client.health()).status === 200, 60_000)

      // The client that got no answer sends its requests again.
      const replayed = await client.push(keyed, KEY)
      expect([replayed.status, replayed.headers['idempotent-replayed']]).toEqual([201, 'true'])
      expect(replayed.body).toMatchObject({ job: { id: keyed.id } })
      const again = await client.send('POST', '/ojs/v1/jobs/batch', batch, KEY)
      expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true'])
      const duplicate = await client.push(job(['a'], {}))
      expect(duplicate.status).toBe(409)
      expect(duplicate.body).toMatchObject({ error: { details: { existing_job_id: unique.id } } })
      const ignored = await client.push(job(['c'], { on_conflict: 'ignore' }))
      expect([ignored.status, ignored.body]).toMatchObject([200, { job: { id: next.id } }])
      expect((await client.get(old.id)).body).toMatchObject({ state: 'cancelled' })

      const got: string[] = []
      await eventually(async () => {
        const fetched = await client.fetch({ queues: [queue], count: 10, wait_ms: 1_000 })
        got.push(...jobsOf(fetched).map(({ id }) => id))
        return got.length >= committed.length
      })
      expect(inOrder(got)).toEqual(inOrder(committed))
    })
  })
}

async function open(
  node: PrivateNode,
  profile: string,
): Promise<{ gateway: Gateway; proxy: TcpProxy }> {
  const vhost = await node.createVhost()
  onTestFinished(() => vhost.drop())
  const proxy = await TcpProxy.start(vhost.url)
  onTestFinished(() => proxy.stop())
  // So long that no publish is refused and withdrawn before the gateway is killed.
  const env = { OJS_QUEUE_TYPE: profile, OJS_PUBLISH_TIMEOUT_MS: '60000' }
  const gateway = await Gateway.start({ amqpUrl: proxy.url, env })
  onTestFinished(() => gateway.dispose())
  await gateway.untilHealthy()
  return { gateway, proxy }
}
