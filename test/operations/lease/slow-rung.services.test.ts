import { expect, it, onTestFinished } from 'vitest'
import { vhostOfTest } from '../../broker/fixtures.ts'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually, startTestGateway } from '../../support/gateway/in-process.ts'
import { fetchOne, nack, stateOf } from '../harness.ts'

const { vhost } = vhostOfTest()

const RETRY = { initial_interval_ms: 200, backoff_coefficient: 1, jitter: false, max_attempts: 5 }

it('a retry that is confirmed only after its delay has one job message, not two', async () => {
  const proxy = await TcpProxy.start(vhost.url)
  onTestFinished(() => proxy.stop())
  const gateway = await startTestGateway(proxy.url, {}, { retryQueueSettleMs: 0 })
  onTestFinished(() => gateway.destroy())
  const jobMessages = () => queueMessages(vhost.url, 'ojs.queue.q')

  const first = await gateway.push('q', { options: { retry: RETRY } })
  await fetchOne(gateway, 'q')
  // Declares the retry queue.
  await nack(gateway, first.body.job.id)
  await gateway.ack((await fetchOne(gateway, 'q')).id)

  const { id } = (await gateway.push('q', { options: { retry: RETRY } })).body.job
  await fetchOne(gateway, 'q')
  const failed = nack(gateway, id)
  proxy.hold('to-gateway')
  expect((await failed).body).toMatchObject({ state: 'retryable', retry_delay_ms: 200 })
  await eventually(async () => (await stateOf(gateway, id)) === 'available')
  proxy.release('to-gateway')
  await eventually(async () => (await jobMessages()).includes(id))
  // The relay handles rows that it skipped before new ones, so it has had the retry's row by then.
  const scheduled = { scheduled_at: new Date(Date.now() + 500).toISOString() }
  const next = (await gateway.push('q', { options: scheduled })).body.job.id
  await eventually(async () => (await jobMessages()).includes(next))
  expect(await jobMessages()).toEqual([id, next])
})
