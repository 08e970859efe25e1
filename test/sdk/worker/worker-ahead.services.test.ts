import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { OJSWorker } from '../../../src/sdk/worker/worker.ts'
import { freshQueue, gatewayForAll, stateOf } from '../../operations/harness.ts'
import { inOrder } from '../../support/broker/order.ts'
import { eventually } from '../../support/gateway/in-process.ts'

const { gateway } = gatewayForAll()

async function pushAll(queue: string, count: number, type = 'quick'): Promise<string[]> {
  const jobs = Array.from({ length: count }, () => ({ type, args: [], options: { queue } }))
  const { body } = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  return body.jobs.map(({ id }: { id: string }) => id)
}

function newWorker(queue: string, concurrency: number, run: (type: string, id: string) => unknown) {
  const options = { url: gateway.url, queues: [queue], concurrency, handleSignals: false }
  const worker = new OJSWorker(options)
  for (const type of ['quick', 'slow'])
    worker.register(type, ({ job }) => run(type, `${job.id} ${job.attempt}`))
  return worker
}

const activeIn = async (queue: string): Promise<number> =>
  (await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)).body.queue.stats.active

test('jobs that were fetched ahead by a worker whose slots are taken run elsewhere, once, as the same attempt', async () => {
  const queue = freshQueue()
  const ids = await pushAll(queue, 200)
  const ran: string[] = []
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const hoarder = newWorker(queue, 2, async (type, id) => {
    ran.push(id)
    await (type === 'slow' ? held : sleep(2))
  })
  await hoarder.start()
  await eventually(() => ran.length === 200)
  ids.push(...(await pushAll(queue, 40, 'slow')))
  // Two that run, and others that were fetched ahead.
  await eventually(async () => (await activeIn(queue)) > 2)
  const other = newWorker(queue, 50, (_, id) => void ran.push(id))
  await other.start()
  await eventually(() => ran.length === 240)
  release()
  await Promise.all([hoarder.stop(), other.stop()])
  expect(inOrder(ran)).toEqual(inOrder(ids.map((id) => `${id} 1`)))
  for (const id of ids) expect(await stateOf(gateway, id)).toBe('completed')
})

test('a worker that stops gives back what it has fetched ahead, uncounted', async () => {
  const queue = freshQueue()
  await pushAll(queue, 100)
  let count = 0
  const worker = newWorker(queue, 2, async (type) => {
    count += 1
    await sleep(type === 'slow' ? 500 : 2)
  })
  await worker.start()
  await eventually(() => count === 100)
  const slow = await pushAll(queue, 40, 'slow')
  await eventually(async () => (await activeIn(queue)) > 2)
  expect(await worker.stop()).toEqual({ abandoned: [] })
  const left = await gateway.fetch([queue], { count: 100, wait_ms: 5_000 })
  expect(left.length).toBeGreaterThan(30)
  for (const { attempt } of left) expect(attempt).toBe(1)
  for (const id of slow)
    expect(['completed', 'active', 'available']).toContain(await stateOf(gateway, id))
})
