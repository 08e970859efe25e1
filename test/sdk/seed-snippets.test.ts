import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test, vi } from 'vitest'
import { bundled, SDK, scratchDir, typeCheck } from './bundle.ts'

/** Seed 004 verbatim. Its snippets have lost their line breaks. */
const SEED = readFileSync(join(import.meta.dirname, 'seed-004.txt'), 'utf8')
const PACKAGE = "'@openjobspec/sdk'"

const dir = scratchDir()

/** The seed's text from `start` up to `heading`; only the name of the package is replaced. */
function snippet(start: string, heading: string): string {
  const from = SEED.indexOf(start)
  const to = SEED.indexOf(`${heading}\nSection titled`, from)
  if (from === -1 || to === -1) throw new Error(`seed 004 has no "${start}" before "${heading}"`)
  return SEED.slice(from, to).replace(PACKAGE, JSON.stringify(SDK))
}

/** Type-checks the snippet as strictly as our own code, runs it, and returns its exports. */
async function run(name: string, parts: string[]): Promise<Record<string, unknown>> {
  const file = join(dir, `${name}.mts`)
  writeFileSync(file, parts.join('\n'))
  typeCheck(dir, [file], { types: ['node'] })
  const { code } = await bundled(file, 'node')
  const built = join(dir, `${name}.mjs`)
  writeFileSync(built, code)
  return import(/* @vite-ignore */ pathToFileURL(built).href)
}

const FROM_SDK = `from ${JSON.stringify(SDK)}`

const CLIENT = `
import { OJSClient } ${FROM_SDK}
export const sent: unknown[] = []
const client = new OJSClient({
  url: 'http://unused',
  transport: {
    async request({ method, path, body }) {
      sent.push({ method, path, body })
      return { status: 201, body: { workflow: { id: 'w1', state: 'running' } } }
    },
  },
})`

// Each test runs a compiler and a bundler, which are slow on a busy machine.
describe('TypeScript of seed 004, with only the import path replaced,', {
  timeout: 60_000,
}, () => {
  test('compiles and runs: chain() and client.workflow() post a chain', async () => {
    const { sent } = await run('chain', [CLIENT, snippet('import { chain }', 'group(jobs…)')])
    expect(sent).toEqual([
      {
        method: 'POST',
        path: '/workflows',
        body: {
          // An addition: by its id the request can be repeated.
          id: expect.any(String),
          type: 'chain',
          steps: [
            { type: 'data.fetch', args: [{ url: '...' }] },
            { type: 'data.transform', args: [{ format: 'csv' }] },
            { type: 'data.load', args: [{ dest: 'warehouse' }] },
          ],
        },
      },
    ])
  })

  test('compiles and runs: group() makes a group', async () => {
    const code = snippet('import { group }', 'batch(jobs, callbacks)')
    const { wf } = await run('group', [code, 'export { wf }'])
    expect(wf).toEqual({
      type: 'group',
      jobs: ['export.csv', 'export.pdf', 'export.xlsx'].map((type) => ({
        type,
        args: [{ reportId: 'rpt_456' }],
      })),
    })
  })

  test('compiles and runs: batch() makes a batch with its callbacks', async () => {
    const code = snippet('import { batch }', 'Error handling')
    const { wf } = await run('batch', [code, 'export { wf }'])
    expect(wf).toEqual({
      type: 'batch',
      jobs: [1, 2].map((n) => ({ type: 'email.send', args: [`user${n}@example.com`] })),
      callbacks: {
        on_complete: { type: 'batch.report', args: [] },
        on_failure: { type: 'batch.alert', args: [] },
      },
    })
  })

  test('compiles and runs: a client enqueues through the mock transport', async () => {
    const imports = `
      import { strict as assert } from 'node:assert'
      import { OJSClient, type Transport } ${FROM_SDK}`
    const code = snippet('const mockTransport', 'Integration tests against a real server')
    const { job } = await run('mock', [imports, code, 'export { job }'])
    expect(job).toMatchObject({ id: 'test-id', state: 'available' })
  })

  test("compiles and runs: a worker's middleware logs start and completion", async () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {})
    const imports = `
      import { OJSWorker, runInline } ${FROM_SDK}
      const worker = new OJSWorker({ url: 'http://unused', queues: ['default'] })
      worker.register('email.send', async () => ({ sent: true }))`
    const code = snippet('worker.use(async', 'Enqueue middleware')
    const more = `export const outcome = await runInline(worker, { type: 'email.send', args: [] })`
    try {
      await run('logging', [imports, code, more])
      const lines = log.mock.calls.map(([line]) => String(line))
      expect(lines).toEqual([
        expect.stringMatching(/^Starting email\.send attempt 1$/),
        expect.stringMatching(/^Completed email\.send in \d+ms$/),
      ])
    } finally {
      log.mockRestore()
    }
  })

  test('describes errors and transports that are compatible with our types', () => {
    const file = join(dir, 'shapes.mts')
    // Copied by hand: in the seed's text, comments without line breaks swallow the code behind them.
    const code = `
      import { HttpTransport, OJSError, type Transport } ${FROM_SDK}
      interface SeedError { code: string; message: string; retryable: boolean; details?: unknown }
      class SeedTransport {
        constructor(_config: { url: string; auth?: string; headers?: Record<string, string> }) {}
        async request<T>(_opts: { method: string; path: string; body?: unknown }) {
          return { status: 200, body: {} as T }
        }
      }
      const config: ConstructorParameters<typeof SeedTransport>[0] = { url: 'http://h' }
      export const error: SeedError = new OJSError({ code: 'not_found', message: 'm' })
      export const transports: Transport[] = [new SeedTransport(config), new HttpTransport(config)]`
    writeFileSync(file, code)
    typeCheck(dir, [file], { types: ['node'] })
  })
})
