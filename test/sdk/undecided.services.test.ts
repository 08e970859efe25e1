import { v7 } from 'uuid'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { OJSClient, OJSTransportError } from '../../src/sdk/index.ts'
import { createVhost, type Vhost } from '../support/broker/rabbit.ts'
import { TcpProxy } from '../support/broker/tcp-proxy.ts'
import { eventually, startTestGateway, type TestGateway } from '../support/gateway/in-process.ts'

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

it.each<[string, (client: OJSClient, id: string) => Promise<unknown>]>([
  ['a job', (client, id) => client.enqueue('a.b', [1], { id })],
  ['a batch', (client, id) => client.enqueueBatch([{ type: 'a.b', args: [1], options: { id } }])],
])(
  'rejects enqueueing %s that RabbitMQ never confirms, although the gateway already shows it',
  async (_, enqueue) => {
    expect((await gateway.push('default')).status).toBe(201)
    const client = new OJSClient({ url: gateway.url, timeout: 500 })
    const id = v7()
    proxy.hold('to-broker')
    const enqueued = enqueue(client, id)
    enqueued.catch(() => {})
    const isStatus = (wanted: number) => async () => (await gateway.get(id)).status === wanted
    await eventually(isStatus(200))
    // Nothing reaches RabbitMQ, so the gateway removes the job of each PUSH again after the publish timeout.
    await expect(enqueued).rejects.toThrow(OJSTransportError)
    await eventually(isStatus(404))
  },
)
