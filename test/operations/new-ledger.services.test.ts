import { expect, it, onTestFinished } from 'vitest'
import { startTestGateway, type TestGateway } from '../support/in-process.ts'
import { vhostForAll } from '../support/rabbit.ts'

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
