import { expect, onTestFinished, test } from 'vitest'
import { NativeWorker } from '../../../src/worker/index.ts'
import { createVhost } from '../../support/broker/rabbit.ts'
import { jobOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { inTime } from '../../support/time/in-time.ts'
import { gate } from '../harness.ts'

test('a native worker never starts a cancelled job, even if the gateway is killed right after its 200', async () => {
  const vhost = await createVhost()
  onTestFinished(() => vhost.drop())
  const gateway = await Gateway.start({ amqpUrl: vhost.url })
  onTestFinished(() => gateway.dispose())
  await gateway.untilHealthy()
  const push = async () => {
    const options = { queue: 'q' }
    return jobOf(await gateway.client.push({ type: 'test.job', args: [], options })).id
  }
  const end = gate()
  const ran: string[] = []
  const worker = new NativeWorker({
    url: vhost.url,
    queues: ['q'],
    concurrency: 1,
    logger: false,
    handleSignals: false,
  })
  worker.register('test.job', async ({ job }) => {
    ran.push(job.id)
    await end.opened
  })
  await worker.start()
  onTestFinished(async () => {
    await worker.stop()
  })
  const first = await push()
  await eventually(() => ran.length === 1)
  const pushTwo = async () => ({ cancelled: await push(), last: await push() })

  const [{ cancelled, last }, { status }] = await inTime(pushTwo, (two) =>
    gateway.client.cancel(two.cancelled),
  )
  expect(status).toBe(200)
  await gateway.kill9()
  end.open()
  // The worker takes jobs in order of arrival, so the cancelled one would have run before this one.
  await eventually(() => ran.includes(last))
  expect(ran.filter((id) => [first, cancelled, last].includes(id))).toEqual([first, last])
})
