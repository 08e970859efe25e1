import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { Gateway } from '../support/gateway/gateway.ts'
import { deferred } from '../support/time/deferred.ts'
import { forAll } from '../support/time/late.ts'
import { workersOfTest } from '../worker/harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const vhost = vhostForAll()
const start = workersOfTest(() => vhost.url)
const gateway = forAll(
  async () => {
    const started = await Gateway.start({ amqpUrl: vhost.url })
    await started.untilHealthy()
    return started
  },
  (started) => started.dispose(),
)

const jobIn = ({ body }: { body: Json }): Json => body.job

test('a job that a native worker ends in time while the gateway stands still is not expired when it goes on', async () => {
  // More than the gateway has in its socket when it goes on.
  let left = 100
  const all = deferred()
  const worker = await start('standstill', () => {
    left -= 1
    if (left === 0) all.resolve()
  })
  const job = {
    type: 'test.job',
    args: [],
    options: { queue: 'standstill', expires_at: '+PT2S' },
  }
  const ids: string[] = []
  for (let i = 0; i < 100; i++) ids.push(jobIn(await gateway.client.push(job)).id)
  gateway.freeze()
  await all.promise
  await worker.stop()
  await sleep(3_000)
  gateway.thaw()
  const stateOf = async (id: string) => jobIn(await gateway.client.get(id)).state
  await expect
    .poll(async () => Promise.all(ids.map(stateOf)), { timeout: 15_000 })
    .toEqual(ids.map(() => 'completed'))
})

test('an ACK that came in time while the gateway stood still counts when it goes on', async () => {
  const options = { queue: 'stall', visibility_timeout_ms: 1_500, max_attempts: 1 }
  const { id } = jobIn(await gateway.client.push({ type: 'test.job', args: [], options }))
  const fetched = await gateway.client.fetch({ queues: ['stall'], worker_id: 'w', wait_ms: 5_000 })
  expect(fetched.body).toMatchObject({ jobs: [{ id }] })
  gateway.freeze()
  const acked = gateway.client.ack({ job_id: id, worker_id: 'w' })
  await sleep(3_000)
  gateway.thaw()
  expect((await acked).status).toBe(200)
})
