import { expect, test } from 'vitest'
import { OJSClient, OJSWorker } from '../../src/sdk/index.ts'
import { eventually, startTestGateway } from '../support/in-process.ts'
import { createVhost } from '../support/rabbit.ts'

test('a job that names no lease outlives that of a gateway whose leases are short', async () => {
  const vhost = await createVhost()
  const gateway = await startTestGateway(vhost.url, { OJS_VISIBILITY_TIMEOUT_MS: '3000' })
  const worker = new OJSWorker({ url: gateway.url, logger: false, handleSignals: false })
  try {
    const attempts: number[] = []
    worker.register('test.job', async ({ attempt }) => {
      attempts.push(attempt)
      // More than two leases, and than the interval of a worker that was told nothing.
      await new Promise((resolve) => setTimeout(resolve, 7_000))
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
