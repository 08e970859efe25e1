import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { OJSWorker } from '../../../src/sdk/worker/worker.ts'
import { deadIds, fetchMany, freshQueue, gatewayForAll, stateOf } from '../../operations/harness.ts'
import { inOrder } from '../../support/broker/order.ts'
import { eventually } from '../../support/gateway/in-process.ts'

const { gateway } = gatewayForAll()

const SLOTS = 20
/** Quick jobs of a worker that is killed; the next ones never end. */
const QUICK = 200

// Its own process, because it is killed; from `dist`, as Node.js 20 runs no TypeScript.
const SDK = pathToFileURL(join(resolve(import.meta.dirname, '../../..'), 'dist', 'sdk', 'index.js'))
const PROGRAM = `
  import { writeSync } from 'node:fs'
  import { OJSWorker } from ${JSON.stringify(SDK.href)}
  const [url, queue] = process.argv.slice(1)
  const worker = new OJSWorker({ url, queues: [queue], concurrency: ${SLOTS}, logger: false })
  let runs = 0
  worker.register('quick', async ({ job }) => {
    runs += 1
    writeSync(1, job.id + '\\n')
    await new Promise((resolve) => runs <= ${QUICK} && setTimeout(resolve, 2))
  })
  await worker.start()
`

/** Runs a worker until all of its slots are taken by jobs that never end, and kills it. The ids of jobs that began. */
async function runAndKill(queue: string): Promise<Set<string>> {
  const args = ['--input-type=module', '-e', PROGRAM, gateway.url, queue]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const gone = once(child, 'close')
  const began = new Set<string>()
  for await (const id of createInterface(child.stdout)) {
    began.add(id)
    if (began.size === QUICK + SLOTS) child.kill('SIGKILL')
  }
  await gone
  return began
}

async function pushAll(
  queue: string,
  count: number,
  type = 'quick',
  over: object = {},
): Promise<string[]> {
  const options = { queue, ...over }
  const jobs = Array.from({ length: count }, () => ({ type, args: [], options }))
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

test('a worker that is killed makes no dead letters of jobs that never began', async () => {
  const queue = freshQueue()
  await pushAll(queue, 2 * QUICK, 'quick', { max_attempts: 1, visibility_timeout_ms: 2_000 })
  const began = await runAndKill(queue)
  await eventually(async () => (await activeIn(queue)) === 0)
  const dead = await deadIds(gateway, queue)
  expect(dead.length).toBeGreaterThanOrEqual(SLOTS)
  // Now and then the worker tries with one job whether jobs may wait again. It may have been giving that one back.
  expect(dead.filter((id) => !began.has(id)).length).toBeLessThanOrEqual(1)
})
