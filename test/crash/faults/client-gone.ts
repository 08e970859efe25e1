import { describe, expect, test } from 'vitest'
import { RawClient, request } from '../../http/raw-client.ts'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { fetched, metric, newQueue, pushed, restOf, useStage } from './stage.ts'

const LEAVING: [name: string, leave: (client: RawClient) => void][] = [
  ['closes', (client) => client.socket.end()],
  ['resets', (client) => client.socket.resetAndDestroy()],
]
/** Far more than the buffers of both kernels, so that an answer that is not read is not written. */
const LARGE = { args: ['x'.repeat(16_000_000)] }

/** The other half of test/http/client-gone.test.ts: what happens to jobs, leases and job messages. */
export function clientGoneFaults(node: PrivateNode): void {
  describe('HTTP client that leaves before its FETCH is answered', () => {
    const stage = useStage(node, { env: { OJS_MAX_BODY_BYTES: '20000000' } })

    test('resets when the job is claimed: the attempt does not count', async () => {
      const { gateway } = stage()
      const queue = newQueue()
      const [id] = (await pushed(gateway, queue, 1, LARGE)) as [string]
      const client = await fetching(gateway, { queues: [queue], wait_ms: 20_000 })
      client.socket.pause()
      const jobs = (state: string) => metric(gateway, 'ojs_queue_depth', { queue, state })
      await eventually(async () => (await jobs('active')) === 1)
      client.socket.resetAndDestroy()
      await eventually(async () => (await jobs('available')) === 1)
      const { job } = (await gateway.get(id)).body
      expect(job).toMatchObject({ state: 'available', attempt: 0 })
      expect(job).not.toHaveProperty('started_at')

      expect(await fetched(gateway, queue, 1)).toEqual([{ id, attempt: 1 }])
      expect((await gateway.ack(id, { attempt: 1 })).status).toBe(200)
      expect(await restOf(gateway, queue)).toEqual([])
    })

    test.each(LEAVING)('%s while it waits: the next worker gets the job', async (_name, leave) => {
      const { gateway } = stage()
      const queue = newQueue()
      await pushed(gateway, queue, 1)
      await fetched(gateway, queue, 1)
      const client = await fetching(gateway, { queues: [queue], wait_ms: 20_000 })
      const waiters = () => metric(gateway, 'ojs_fetch_waiters', { queue })
      await eventually(async () => (await waiters()) === 1)
      leave(client)
      await eventually(async () => (await waiters()) === 0)
      const [id] = await pushed(gateway, queue, 1)
      expect(await fetched(gateway, queue, 1)).toEqual([{ id, attempt: 1 }])
      client.destroy()
    })
  })
}

async function fetching(gateway: TestGateway, body: object): Promise<RawClient> {
  const client = await RawClient.connect(Number(new URL(gateway.url).port))
  client.send(request('POST', '/ojs/v1/workers/fetch', {}, JSON.stringify(body)))
  return client
}
