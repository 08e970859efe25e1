import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, it } from 'vitest'
import { freshQueue } from '../operations/harness.ts'
import { connectControl } from '../support/control.ts'
import { startTestGateway } from '../support/in-process.ts'
import { createVhost } from '../support/rabbit.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const vhost = await createVhost()
const proxy = await TcpProxy.start(Number(new URL(vhost.url).port))
const through = new URL(vhost.url)
through.port = String(proxy.port)
const gateway = await startTestGateway(through.href)
afterAll(async () => {
  await gateway.destroy()
  await proxy.stop()
  await vhost.drop()
})

// Its connections come back in any order, each after a second or so of its own.
it('a gateway that has lost RabbitMQ answers all that is asked meanwhile, of queues that are well', async () => {
  const queue = freshQueue()
  await gateway.push(queue)
  const client = await connectControl(vhost.url)
  const answers: unknown[] = []
  for (let round = 0; round < 4; round++) {
    proxy.cut()
    const asked: Promise<unknown>[] = []
    for (let i = 0; i < 60; i++) {
      const answer = client.ask('default', 'ojs.control.sync', { queues: [queue] })
      asked.push(Promise.race([answer, sleep(10_000, 'nothing')]))
      await sleep(40)
    }
    answers.push(...(await Promise.all(asked)))
  }
  const healthy = { tombstones: [], truncated: false, paused: [], directive: 'running' }
  expect(answers).toEqual(answers.map(() => healthy))
  await client.close()
})
