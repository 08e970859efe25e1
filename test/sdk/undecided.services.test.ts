import { afterEach, beforeEach, expect, it } from 'vitest'
import { OJSClient } from '../../src/sdk/index.ts'
import { startTestGateway, type TestGateway } from '../support/in-process.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

let vhost: Vhost
let proxy: TcpProxy
let gateway: TestGateway
beforeEach(async () => {
  vhost = await createVhost()
  proxy = await TcpProxy.start(vhost.url)
  gateway = await startTestGateway(proxy.url, { OJS_PUBLISH_TIMEOUT_MS: '2000' })
})
afterEach(async () => {
  proxy.release('to-broker')
  await gateway.destroy()
  await proxy.stop()
  await vhost.drop()
})

it.each(['a job', 'a batch'])(
  'does not take its own echo for the answer while RabbitMQ may not confirm %s',
  async (what) => {
    expect((await gateway.push('default')).status).toBe(201)
    const client = new OJSClient({ url: gateway.url, timeout: 500 })
    proxy.hold('to-broker')
    const enqueued =
      what === 'a job'
        ? client.enqueue('a.b', [1]).then((job) => [job])
        : client.enqueueBatch([{ type: 'a.b', args: [1] }])
    const jobs = await enqueued.catch(() => [])
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    const states = await Promise.all(jobs.map(async ({ id }) => (await gateway.get(id)).status))
    expect(states).toEqual(jobs.map(() => 200))
  },
)
