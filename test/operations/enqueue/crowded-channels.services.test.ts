import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { vhostOfTest } from '../../broker/fixtures.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'

const { vhost, admin } = vhostOfTest()

const LEASE = { visibility_timeout_ms: 600_000, timeout_ms: 0 }

let gateway: TestGateway
beforeEach(async () => {
  // RabbitMQ's default is 2,047 channels.
  gateway = await startTestGateway(`${vhost.url}?channelMax=24`, {}, { idleMs: 100 })
  onTestFinished(() => gateway.destroy())
})

const consumersOf = async (queue: string) =>
  (await admin.channel.checkQueue(`ojs.queue.${queue}`)).consumerCount

it('leases that each keep a channel open leave channels for other queues', async () => {
  const queues = ['a', 'b', 'c', 'd']
  for (const queue of queues) {
    for (let n = 0; n < 8; n++) await gateway.push(queue, { options: LEASE })
  }
  await gateway.push('other')
  for (let round = 0; round < 8; round++) {
    const fetched = queues.map((queue) => gateway.fetch([queue], { wait_ms: 10_000 }))
    expect((await Promise.all(fetched)).map((jobs) => jobs.length)).toEqual([1, 1, 1, 1])
    // Idle consumers are cancelled, and channels without a lease are closed.
    for (const queue of queues) await eventually(async () => (await consumersOf(queue)) === 0)
  }
  expect(await gateway.fetch(['other'], { wait_ms: 10_000 })).toHaveLength(1)
})
