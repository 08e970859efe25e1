import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { expect, it, vi } from 'vitest'
import { DEBIAN_PYTHON, testVariables } from '../../scripts/test/environment.mjs'
import type { NativeProducer, NativeWorker } from '../../src/worker/index.ts'
import { gatewayForAll } from '../operations/harness.ts'
import { scratchDir, typeCheck } from '../sdk/bundle.ts'
import { blockWith, README_AMQP_URL, ROOT } from './blocks.ts'

const { vhost, gateway } = gatewayForAll()
const dir = scratchDir()

it("the README's Python consumer prints a job that was pushed over HTTP", async () => {
  const job = await gateway.push('email', { args: ['user@example.com', 'welcome'] })
  expect(job.status).toBe(201)
  const { code } = blockWith('python', "ch.consume('ojs.queue.email')")
  const theirs = "pika.ConnectionParameters('127.0.0.1', virtual_host='/ojs')"
  const program = code.replace(theirs, `pika.URLParameters(${JSON.stringify(vhost.url)})`)
  expect(program).toContain(vhost.url)

  const python = process.env[testVariables.python] ?? DEBIAN_PYTHON
  const child = spawn(python, ['-u', '-c', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const gone = once(child, 'exit')
  const [printed] = await once(createInterface(child.stdout), 'line')
  child.kill()
  await gone
  expect(printed).toBe(`${job.body.job.id} 1 ['user@example.com', 'welcome']`)
})

it("the README's native worker completes the job of its native producer", async () => {
  const { code } = blockWith('ts', 'new NativeProducer(')
  const exported = `${code.replace(`'${README_AMQP_URL}'`, JSON.stringify(vhost.url))}
    export { job, producer, worker }`
  expect(exported).toContain(vhost.url)
  const from = (path: string) =>
    exported.replace("'ojs-rabbitmq/worker'", JSON.stringify(join(ROOT, path)))
  const file = join(dir, 'native.mts')
  writeFileSync(file, from('src/worker/index.ts'))
  typeCheck(dir, [file], { types: ['node'] })
  // The program has no type annotations, so the checked TypeScript can run as JavaScript.
  const built = join(dir, 'native.mjs')
  writeFileSync(built, from('dist/worker/index.js'))
  const program: { job: { id: string }; producer: NativeProducer; worker: NativeWorker } =
    await import(/* @vite-ignore */ pathToFileURL(built).href)
  try {
    const { job } = program
    const completed = { state: 'completed', result: { sent: 1 } }
    await vi.waitFor(
      async () => expect((await gateway.get(job.id)).body.job).toMatchObject(completed),
      15_000,
    )
  } finally {
    await program.worker.stop()
    await program.producer.close()
  }
}, 60_000)

it("the README's native program ends at SIGTERM", async () => {
  const { code } = blockWith('ts', 'new NativeProducer(')
  const file = join(dir, 'ending.mjs')
  const program = code
    .replace(`'${README_AMQP_URL}'`, JSON.stringify(vhost.url))
    .replace("'ojs-rabbitmq/worker'", JSON.stringify(join(ROOT, 'dist/worker/index.js')))
  writeFileSync(file, `${program}\nconsole.log('running')`)
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const gone = once(child, 'exit')
  try {
    await once(createInterface(child.stdout), 'line')
    child.kill()
    expect(await Promise.race([gone, sleep(20_000, 'still there')])).not.toBe('still there')
  } finally {
    child.kill('SIGKILL')
  }
}, 60_000)
