import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, it } from 'vitest'
import { freshQueue } from '../operations/harness.ts'
import { createVhost } from '../support/broker/rabbit.ts'
import { TcpProxy } from '../support/broker/tcp-proxy.ts'
import { connectControl } from '../support/gateway/control.ts'
import { startTestGateway } from '../support/gateway/in-process.ts'

/** So short that questions come at any moment between two connections. */
const PACE_MS = 40

const vhost = await createVhost()
const proxy = await TcpProxy.start(vhost.url)
const gateway = await startTestGateway(proxy.url)
afterAll(async () => {
  await gateway.destroy()
  await proxy.stop()
  await vhost.drop()
})

/** Calls `ask` repeatedly from the loss of the connections until all of them are back. */
async function untilBack(ask: () => void): Promise<void> {
  const isServing = async () => (await gateway.request('GET', '/ojs/v1/health')).status === 200
  for (const expected of [false, true]) {
    while ((await isServing()) !== expected) {
      ask()
      await sleep(PACE_MS)
    }
  }
}

// The connections come back in any order, each after about a second.
it('a reconnecting gateway answers every SYNC asked meanwhile, without not_ready queues', async () => {
  const queue = freshQueue()
  await gateway.push(queue)
  const client = await connectControl(vhost.url)
  const answers: unknown[] = []
  for (let round = 0; round < 4; round++) {
    proxy.cut()
    const asked: Promise<unknown>[] = []
    await untilBack(() =>
      asked.push(client.ask('default', 'ojs.control.sync', { queues: [queue] })),
    )
    answers.push(...(await Promise.all(asked)))
  }
  const healthy = { tombstones: [], truncated: false, paused: [], directive: 'running' }
  expect(answers).toEqual(answers.map(() => healthy))
  await client.close()
})
