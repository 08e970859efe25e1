import { expect, it, onTestFinished } from 'vitest'
import { createVhost, vhostForAll } from '../../support/broker/rabbit.ts'
import { startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'

const vhost = vhostForAll()

async function start(): Promise<TestGateway> {
  const gateway = await startTestGateway(vhost.url, {}, { watchMs: 50 })
  onTestFinished(() => gateway.destroy())
  return gateway
}

const codes = async (gateway: TestGateway): Promise<string[]> => {
  const { body } = await gateway.request('GET', '/ojs/v1/health')
  return body.warnings.map(({ code }: { code: string }) => code)
}

it('health warns ledger_is_new when a new ledger meets the queues of another one, until a restart', async () => {
  const first = await start()
  await first.push('default')
  await expect.poll(() => vhost.exchanges()).toContain('ojs.system.origin')
  // No warning: this gateway declared the origin exchange itself.
  await vhost.closeConnections()
  await expect
    .poll(async () => (await first.request('GET', '/ojs/v1/health')).body.status)
    .toBe('ok')
  await first.stop()

  const second = await start()
  await expect.poll(() => codes(second)).toEqual(['ledger_is_new'])
  const { body } = await second.request('GET', '/ojs/v1/health')
  expect(body).toMatchObject({
    status: 'ok',
    warnings: [{ details: { entity: 'ojs.system.origin' } }],
  })
  await second.restart()
  await expect.poll(() => second.fetch(['default'])).toHaveLength(1)
  expect(await codes(second)).toEqual([])
})

it('health warns ledger_is_older after an older ledger was restored, until a restart', async () => {
  const own = await createVhost()
  const gateway = await startTestGateway(own.url, {}, { watchMs: 50 })
  onTestFinished(async () => {
    await gateway.destroy()
    await own.drop()
  })
  const epochs = async () =>
    (await own.exchanges()).filter((name) => name.startsWith('ojs.system.ledger.'))
  await gateway.push('default')
  await expect.poll(() => own.exchanges()).toContain('ojs.system.origin')
  const first = await epochs()
  expect(first).toHaveLength(1)
  await gateway.stop()
  const restore = await gateway.ledger.backUp()

  await gateway.restart()
  await expect.poll(epochs).not.toEqual(first)
  expect(await codes(gateway)).toEqual([])
  await gateway.stop()
  await restore()

  await gateway.restart()
  await expect.poll(() => codes(gateway)).toEqual(['ledger_is_older'])
  await expect.poll(async () => (await epochs()).length).toBe(2)
  const restored = await epochs()
  await gateway.restart()
  await expect.poll(epochs).not.toEqual(restored)
  expect(await codes(gateway)).toEqual([])
})
