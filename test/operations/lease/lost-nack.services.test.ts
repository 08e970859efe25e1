import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { vhostOfTest } from '../../broker/fixtures.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'

const { vhost, admin } = vhostOfTest()

let proxy: TcpProxy
let gateway: TestGateway
beforeEach(async () => {
  proxy = await TcpProxy.start(vhost.url)
  onTestFinished(() => proxy.stop())
  gateway = await startTestGateway(proxy.url)
  onTestFinished(() => gateway.destroy())
})

const depth = async (queue: string) => (await admin.channel.checkQueue(queue)).messageCount

it('a discarded job is dead-lettered even if its basic.nack is lost with the connection', async () => {
  await gateway.push('q', { options: { retry: { max_attempts: 1 } } })
  const [job] = await gateway.fetch(['q'], { wait_ms: 5_000 })
  proxy.hold('to-broker')
  const error = { code: 'e', message: 'm' }
  const nack = { job_id: job?.id, error }
  const answer = await gateway.request('POST', '/ojs/v1/workers/nack', nack)
  expect(answer.body).toMatchObject({ state: 'discarded' })
  proxy.cut()
  await eventually(async () => (await depth('ojs.queue.q')) === 1)
  await eventually(async () => (await gateway.request('GET', '/ojs/v1/health')).status === 200)
  // RabbitMQ has requeued the job message; the next FETCH takes it and rejects it again.
  await eventually(async () => {
    expect(await gateway.fetch(['q'], { wait_ms: 300 })).toEqual([])
    return (await depth('ojs.queue.dlx.q')) === 1
  })
  expect(await depth('ojs.queue.q')).toBe(0)
})
