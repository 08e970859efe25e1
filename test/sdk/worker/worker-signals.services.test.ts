import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { OJSClient } from '../../../src/sdk/index.ts'
import { freshQueue, serverForAll } from '../server.ts'

// Its own process, because a signal goes to a whole process; from `dist`, as Node.js 20 runs no TypeScript.
const SDK = pathToFileURL(join(resolve(import.meta.dirname, '../../..'), 'dist', 'sdk', 'index.js'))
const PROGRAM = `
  import { OJSWorker } from ${JSON.stringify(SDK.href)}
  const [url, queue, gracePeriod] = process.argv.slice(1)
  const worker = new OJSWorker({ url, queues: [queue], gracePeriod: Number(gracePeriod), pollInterval: 200 })
  worker.register('test.job', async ({ args: [ms] }) => {
    console.log('running')
    await new Promise((resolve) => setTimeout(resolve, ms))
    return 'done'
  })
  worker.stopped.then(({ abandoned }) => console.log(JSON.stringify(abandoned)))
  await worker.start()
`

const server = serverForAll()
let client: OJSClient
let queue: string
let child: ChildProcess
beforeEach(() => {
  client = new OJSClient({ url: server.url })
  queue = freshQueue()
})
afterEach(() => {
  child.kill('SIGKILL')
})

function spawnWorker(gracePeriod: number): AsyncIterator<string> {
  const args = ['--input-type=module', '-e', PROGRAM, server.url, queue, String(gracePeriod)]
  child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  if (!child.stdout) throw new Error('no stdout')
  return createInterface(child.stdout)[Symbol.asyncIterator]()
}

test('a worker process finishes its running job at SIGTERM and exits with code 0', async () => {
  const lines = spawnWorker(25_000)
  const { id } = await client.enqueue('test.job', [500], { queue })
  expect((await lines.next()).value).toBe('running')
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  expect((await lines.next()).value).toBe('[]')
  expect(await exited).toEqual([0, null])
  expect(await client.getJob(id)).toMatchObject({ state: 'completed', result: 'done' })
})

test('a worker process gives a hanging job back at the second signal and ends by it', async () => {
  const lines = spawnWorker(600_000)
  const { id } = await client.enqueue('test.job', [600_000], { queue })
  expect((await lines.next()).value).toBe('running')
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  // Two signals that arrive at the same moment may count as one.
  await new Promise((resolve) => setTimeout(resolve, 100))
  child.kill('SIGINT')
  expect((await lines.next()).value).toBe(JSON.stringify([id]))
  const [code, signal] = await exited
  expect(code).toBeNull()
  expect(['SIGTERM', 'SIGINT']).toContain(signal)
  expect(await client.getJob(id)).toMatchObject({ state: 'available', attempt: 0 })
})
