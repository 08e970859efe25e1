import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, type MockInstance, test, vi } from 'vitest'
import { OJSClient, type OJSWorker } from '../../src/sdk/index.ts'
import { bundled, ROOT, SDK, scratchDir, typeCheck } from './bundle.ts'
import { serverForAll } from './server.ts'

const server = serverForAll()
const dir = scratchDir()

let log: MockInstance
beforeEach(() => {
  log = vi.spyOn(console, 'log').mockImplementation(() => {})
})
afterEach(() => {
  log.mockRestore()
})

/** Runs the first block with `mark` of the page; only package and URL are replaced. */
async function run(
  name: string,
  mark: string,
  more = '',
  page = 'docs/guide/typescript-sdk.md',
): Promise<Record<string, unknown>> {
  const text = readFileSync(join(ROOT, page), 'utf8')
  const blocks = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code)
  const file = join(dir, `${name}.mts`)
  const own = (blocks.find((code) => code.includes(mark)) ?? '')
    .replace("'ojs-rabbitmq/sdk'", JSON.stringify(SDK))
    .replace("'http://127.0.0.1:8080'", JSON.stringify(server.url))
  expect(own).toContain(server.url)
  writeFileSync(file, own + more)
  typeCheck(dir, [file], { types: ['node'] })
  const built = join(dir, `${name}.mjs`)
  writeFileSync(built, (await bundled(file, 'node')).code)
  return import(/* @vite-ignore */ pathToFileURL(built).href)
}

test("the README's program enqueues a job and completes it", async () => {
  const more = 'export { client, job, worker }\n'
  const { client, job, worker } = await run('readme', 'deliveredTo: to', more, 'README.md')
  try {
    const { id } = job as { id: string }
    const completed = { state: 'completed', result: { deliveredTo: 'user@example.com' } }
    await vi.waitFor(
      async () => expect(await (client as OJSClient).getJob(id)).toMatchObject(completed),
      15_000,
    )
  } finally {
    await (worker as OJSWorker).stop()
  }
}, 60_000)

test("the guide's client example runs and prints what it says", async () => {
  await run('client', 'new OJSClient(')
  expect(log.mock.calls).toEqual([
    ['scheduled'],
    ['invalid_request', 409, expect.stringMatching(/./)],
  ])
}, 60_000)

test("the guide's worker example completes a job and logs it", async () => {
  const { worker } = await run('worker', 'new OJSWorker(', 'export { worker }\n')
  try {
    const client = new OJSClient({ url: server.url })
    const { id } = await client.enqueue('email.send', { to: 'a' }, { queue: 'email' })
    const completed = { state: 'completed', result: { delivered: true } }
    await vi.waitFor(async () => expect(await client.getJob(id)).toMatchObject(completed), 15_000)
    expect(log).toHaveBeenCalledWith('sending', { to: 'a' }, 'attempt', 1)
    expect(log).toHaveBeenCalledWith(expect.stringMatching(/^email.send took \d+ ms$/))
  } finally {
    await (worker as OJSWorker).stop()
  }
}, 60_000)

test("the guide's operator example finds, cancels and watches", async () => {
  await run('operator', 'client.bulk.cancel')
  const lines = log.mock.calls.map((args) => args.join(' '))
  expect(lines).toContain('invoice.pdf scheduled')
  expect(lines).toContain('1 would be cancelled')
  expect(lines).toContain('1 cancelled 0 left alone')
  expect(lines.some((line) => line.startsWith('job.cancelled '))).toBe(true)
}, 60_000)
