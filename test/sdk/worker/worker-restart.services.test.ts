import { expect, test } from 'vitest'
import { HttpTransport, OJSClient, OJSWorker, type Transport } from '../../../src/sdk/index.ts'
import { createVhost } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway } from '../../support/gateway/in-process.ts'
import { deferred } from '../../support/time/deferred.ts'
import { newLogger } from '../fake-source.ts'

test('a worker loses neither a job nor an attempt when its gateway restarts', async () => {
  const vhost = await createVhost()
  const gateway = await startTestGateway(vhost.url)
  // The gateway has another port after the restart.
  const transport: Transport = {
    request: (request) => new HttpTransport({ url: gateway.url, retry: false }).request(request),
  }
  const logger = newLogger()
  const worker = new OJSWorker({ transport, logger, handleSignals: false, heartbeatInterval: 500 })
  try {
    const running = deferred()
    const handler = deferred<string>()
    const attempts: number[] = []
    worker.register('test.job', ({ args, attempt }) => {
      attempts.push(attempt)
      running.resolve()
      return args[0] === 'slow' ? handler.promise : 'quick'
    })
    await worker.start()
    const { id } = await new OJSClient({ transport }).enqueue('test.job', ['slow'])
    await running.promise
    const restarting = gateway.restart()
    handler.resolve('result')
    await restarting
    const client = new OJSClient({ transport })
    await eventually(async () => (await client.getJob(id)).state === 'completed')
    expect(await client.getJob(id)).toMatchObject({ attempt: 1, result: 'result' })
    const next = await client.enqueue('test.job', ['quick'])
    await eventually(async () => (await client.getJob(next.id)).state === 'completed')
    expect(attempts).toEqual([1, 1])
    expect(worker.state).toBe('running')
  } finally {
    await worker.stop()
    await gateway.destroy()
    await vhost.drop()
  }
})
