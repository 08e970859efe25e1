import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, it } from 'vitest'
import { freshQueue, stateOf, untilState } from '../operations/harness.ts'
import { createVhost } from '../support/broker/rabbit.ts'
import { TcpProxy } from '../support/broker/tcp-proxy.ts'
import { connectControl } from '../support/gateway/control.ts'
import { eventually, startTestGateway } from '../support/gateway/in-process.ts'
import { AheadClock } from '../support/time/ahead-clock.ts'

const vhost = await createVhost()
const proxy = await TcpProxy.start(vhost.url)
const clock = new AheadClock()
const gateway = await startTestGateway(proxy.url, {}, { clock })
afterAll(async () => {
  await gateway.destroy()
  await proxy.stop()
  await vhost.drop()
})

it('a gateway without RabbitMQ does not expire a job that a native worker may have run', async () => {
  const queue = freshQueue()
  const { id } = (await gateway.push(queue, { options: { expires_at: '+PT1H' } })).body.job
  const client = await connectControl(vhost.url)
  proxy.refuse(true)
  proxy.cut()
  await eventually(async () => (await gateway.request('GET', '/ojs/v1/health')).status === 503)
  const jobMessage = await client.channel.get(`ojs.queue.${queue}`)
  if (jobMessage === false) throw new Error('the job has no job message')
  const ended = { job_id: id, generation: 0, attempt: 1, event: 'completed', result: 'done' }
  await client.say(queue, 'ojs.control.report', { worker_id: 'w', events: [ended] })
  client.channel.ack(jobMessage)
  clock.aheadMs += 3_600_000
  // The gateway looks for expired jobs five times a second.
  await sleep(1_000)
  expect(await stateOf(gateway, id)).toBe('available')
  proxy.refuse(false)
  expect(await untilState(gateway, id, 'completed')).toMatchObject({ result: 'done' })
  await client.close()
})
