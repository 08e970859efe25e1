import { expect, test } from 'vitest'
import { HttpTransport } from '../../../src/sdk/transport/http-transport.ts'
import type { Transport } from '../../../src/sdk/transport/transport.ts'
import { OJSWorker } from '../../../src/sdk/worker/worker.ts'
import { freshQueue, gatewayForAll, stateOf } from '../../operations/harness.ts'
import { inOrder } from '../../support/broker/order.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'

const { gateway } = gatewayForAll()

async function pushAll(on: TestGateway, queue: string, count: number): Promise<string[]> {
  const jobs = Array.from({ length: count }, (_, i) => ({
    type: 'a',
    args: [i],
    options: { queue },
  }))
  const { body } = await on.request('POST', '/ojs/v1/jobs/batch', { jobs })
  return body.jobs.map(({ id }: { id: string }) => id)
}

/** A transport that notes the paths of its requests. */
function noted(url: string): { transport: Transport; paths: string[] } {
  const inner = new HttpTransport({ url, retry: false })
  const paths: string[] = []
  const request: Transport['request'] = (asked) => {
    paths.push(asked.path)
    return inner.request(asked)
  }
  return { transport: { request }, paths }
}

test('a worker with many slots runs each job once, and settles many with one request', async () => {
  const queue = freshQueue()
  const ids = await pushAll(gateway, queue, 400)
  const { transport, paths } = noted(gateway.url)
  const worker = new OJSWorker({
    transport,
    queues: [queue],
    concurrency: 50,
    handleSignals: false,
  })
  const ran: string[] = []
  worker.register('a', ({ job, args: [i] }) => {
    ran.push(job.id)
    if (Number(i) % 100 === 7) throw Object.assign(new Error('no'), { retryable: false })
    return { i }
  })
  await worker.start()
  await eventually(() => ran.length >= 400 && worker.activeJobs === 0)
  await worker.stop()
  expect(inOrder(ran)).toEqual(inOrder(ids))
  for (const [i, id] of ids.entries()) {
    expect(await stateOf(gateway, id)).toBe(i % 100 === 7 ? 'discarded' : 'completed')
  }
  expect(paths.filter((path) => path === '/workers/settle').length).toBeGreaterThan(0)
  expect(paths.filter((path) => /ack|settle/.test(path)).length).toBeLessThan(200)
})

test('a worker that stops in the midst of its work loses no outcome, and gives back what it has not run', async () => {
  const queue = freshQueue()
  const ids = await pushAll(gateway, queue, 300)
  const worker = new OJSWorker({
    url: gateway.url,
    queues: [queue],
    concurrency: 60,
    handleSignals: false,
  })
  const ran = new Set<string>()
  let stopping: Promise<unknown> | undefined
  worker.register('a', ({ job }) => {
    ran.add(job.id)
    if (ran.size === 130) stopping = worker.stop()
  })
  await worker.start()
  await eventually(() => stopping !== undefined)
  expect(await stopping).toEqual({ abandoned: [] })
  for (const id of ids) {
    expect(await stateOf(gateway, id)).toBe(ran.has(id) ? 'completed' : 'available')
  }
})
