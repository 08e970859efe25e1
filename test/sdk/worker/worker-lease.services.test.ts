import { expect, test } from 'vitest'
import { OJSClient, OJSWorker } from '../../../src/sdk/index.ts'
import { createVhost } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway } from '../../support/gateway/in-process.ts'

const BEATS = 5

test('heartbeats keep a job that runs for longer than the default lease of its gateway', async () => {
  const vhost = await createVhost()
  const gateway = await startTestGateway(vhost.url, { OJS_VISIBILITY_TIMEOUT_MS: '3000' })
  const worker = new OJSWorker({ url: gateway.url, logger: false, handleSignals: false })
  const heartbeats = async () => {
    const { body } = await gateway.request('GET', '/ojs/v1/events?types=job.heartbeat')
    return body.events.length
  }
  try {
    const attempts: number[] = []
    worker.register('test.job', async ({ attempt }) => {
      attempts.push(attempt)
      // The gateway asks for one heartbeat a second, so five of them take longer than its lease of 3 s.
      await eventually(async () => (await heartbeats()) >= BEATS)
    })
    await worker.start()
    const client = new OJSClient({ url: gateway.url })
    const { id } = await client.enqueue('test.job', [])
    await eventually(async () => (await client.getJob(id)).state === 'completed')
    expect(attempts).toEqual([1])
  } finally {
    await worker.stop()
    await gateway.destroy()
    await vhost.drop()
  }
})
