import { afterAll, beforeAll, expect, test } from 'vitest'
import { GatewayLine } from '../../src/worker/gateway-line.ts'
import { AmqpLink } from '../../src/worker/link.ts'
import { withDefaults } from '../../src/worker/options.ts'
import { startTestGateway, type TestGateway } from '../support/in-process.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'

let vhost: Vhost
let gateway: TestGateway

beforeAll(async () => {
  vhost = await createVhost()
  gateway = await startTestGateway(vhost.url)
})
afterAll(async () => {
  await gateway.destroy()
  await vhost.drop()
})

test('a worker asks as soon as it can publish, although it could consume before', async () => {
  const options = withDefaults({ url: vhost.url, logger: false, answerTimeoutMs: 10_000 }, 'test')
  const link = new AmqpLink(options, {
    askForQueue: async () => {},
    gauges: () => ({ consumers: [], queues: [] }),
  })
  const line = new GatewayLine(link, () => 'w-1')
  try {
    expect((await gateway.push('reordered')).status).toBe(201)
    await gateway.request('POST', '/ojs/v1/queues/reordered/pause')
    await link.consume.start()
    const synced = line.sync(['reordered'])
    await link.publish.start()
    expect(await synced).toMatchObject({ paused: ['reordered'] })
    expect(line.isSilent).toBe(false)
  } finally {
    await link.stop(AbortSignal.timeout(5_000))
  }
})
