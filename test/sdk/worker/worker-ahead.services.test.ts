import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { OJSWorker } from '../../../src/sdk/worker/worker.ts'
import { fetchMany, freshQueue, gatewayForAll, stateOf } from '../../operations/harness.ts'
import { inOrder } from '../../support/broker/order.ts'
import { eventually } from '../../support/gateway/in-process.ts'

const { gateway } = gatewayForAll()

const SLOTS = 20

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
  (await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)).body.stats.active

test('jobs that were fetched ahead by a worker whose slots are taken run elsewhere, once, as the same attempt', async () => {
  const queue = freshQueue()
  const ids = await pushAll(queue, 200)
  const ran: string[] = []
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const hoarder = newWorker(queue, SLOTS, async (type, id) => {
    ran.push(id)
    await (type === 'slow' ? held : sleep(2))
  })
  await hoarder.start()
  await eventually(() => ran.length === 200)
  ids.push(...(await pushAll(queue, 60, 'slow')))
  // Those that run, and others that were fetched ahead.
  await eventually(async () => (await activeIn(queue)) > SLOTS)
  const other = newWorker(queue, 50, (_, id) => void ran.push(id))
  await other.start()
  await eventually(() => ran.length === 260)
  release()
  await Promise.all([hoarder.stop(), other.stop()])
  expect(inOrder(ran)).toEqual(inOrder(ids.map((id) => `${id} 1`)))
  for (const id of ids) expect(await stateOf(gateway, id)).toBe('completed')
})

test('a worker that stops gives back what it has fetched ahead, uncounted', async () => {
  const queue = freshQueue()
  await pushAll(queue, 100)
  const ran = new Set<string>()
  const worker = newWorker(queue, SLOTS, async (type, id) => {
    ran.add(id)
    await sleep(type === 'slow' ? 2_000 : 2)
  })
  await worker.start()
  await eventually(() => ran.size === 100)
  const slow = await pushAll(queue, 60, 'slow')
  await eventually(async () => (await activeIn(queue)) > SLOTS)
  expect(await worker.stop()).toEqual({ abandoned: [] })
  for (const id of slow)
    expect(await stateOf(gateway, id)).toBe(ran.has(`${id} 1`) ? 'completed' : 'available')
  const left = await fetchMany(gateway, queue, 160 - ran.size)
  expect(left.length).toBeGreaterThan(0)
  for (const { attempt } of left) expect(attempt).toBe(1)
})
