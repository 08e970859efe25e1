import { afterAll, expect, it } from 'vitest'
import { freshQueue, stateOf, untilState } from '../operations/harness.ts'
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

it('a gateway without RabbitMQ does not take for expired what a native worker has run', async () => {
  const queue = freshQueue()
  const expiresAt = Date.now() + 4_000
  const options = { expires_at: new Date(expiresAt).toISOString() }
  const { id } = (await gateway.push(queue, { options })).body.job
  const client = await connectControl(vhost.url)
  proxy.refuse(true)
  proxy.cut()
  const token = await client.channel.get(`ojs.queue.${queue}`)
  if (token === false) throw new Error('the job has no token')
  const ended = { job_id: id, generation: 0, attempt: 1, event: 'completed', result: 'done' }
  await client.say(queue, 'ojs.control.report', { worker_id: 'w', events: [ended] })
  client.channel.ack(token)
  await expect.poll(() => Date.now(), { timeout: 10_000 }).toBeGreaterThan(expiresAt + 1_000)
  expect(await stateOf(gateway, id)).toBe('available')
  proxy.refuse(false)
  expect(await untilState(gateway, id, 'completed')).toMatchObject({ result: 'done' })
  await client.close()
})
