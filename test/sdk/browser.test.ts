import { webcrypto } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import type * as Sdk from '../../src/sdk/index.ts'
import { Client } from '../../src/sdk/index.ts'
import { bundled, ROOT, SDK, scratchDir, typeCheck } from './bundle.ts'

const OWN = /^src\/sdk\/(?:[\w-]+\/)?[\w-]+\.ts$/
const PACKAGES = /^node_modules\/(uuid\/dist|eventsource-parser\/dist|@opentelemetry\/api)\//

const dir = scratchDir()

/** The globals of every browser: `process`, `Buffer` and `require` are missing. */
function browserGlobals(fetch: unknown) {
  return {
    ...{ URL, URLSearchParams, AbortController, AbortSignal, Headers, TextEncoder, btoa },
    ...{ setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask },
    ...{ crypto: webcrypto, performance, fetch },
  }
}

// The tests run a compiler and a bundler, which are slow on a busy machine.
describe('SDK in a browser', { timeout: 60_000 }, () => {
  test('bundles the SDK and its packages without modules of Node.js or the server', async () => {
    const { modules, imports, dynamicImports, code } = await bundled(SDK, 'browser')
    const ids = Object.keys(modules).map((id) => relative(ROOT, id))
    expect(ids).toContain('src/sdk/client/client.ts')
    expect(ids.filter((id) => !OWN.test(id) && !PACKAGES.test(id))).toEqual([])
    expect([...imports, ...dynamicImports]).toEqual([])
    expect(code).not.toMatch(/['"]node:|\brequire\(/)
  })

  test('control: the bundle of a file that imports node:fs reports that import', async () => {
    const input = join(dir, 'spoilt.ts')
    writeFileSync(input, `import { readFileSync } from 'node:fs'\nexport { readFileSync }\n`)
    const reported = await bundled(input, 'browser').then(
      ({ imports }) => imports,
      (error: unknown) => [String(error)],
    )
    expect(reported.join()).toContain('node:fs')
  })

  test('enqueues a job in a context that has only the globals of a browser', async () => {
    const { code } = await bundled(SDK, 'browser', 'iife')
    const sent: { url: string; body: string }[] = []
    const context = createContext(
      browserGlobals(async (url: string, init: { body: string }) => {
        sent.push({ url, body: init.body })
        return new Response(JSON.stringify({ job: JSON.parse(init.body) }), { status: 201 })
      }),
    )
    runInContext(code, context)
    const { OJSClient } = runInContext('sdk', context) as typeof Sdk
    expect(runInContext('typeof process + typeof Buffer', context)).toBe('undefinedundefined')
    const client = new OJSClient({ url: 'https://me:secret@jobs.example.com' })
    const job = await client.enqueue('email.send', { to: 'a' })
    expect(job.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
    expect(sent[0]?.url).toBe('https://jobs.example.com/ojs/v1/jobs')
    expect(() => new OJSClient({ url: 'amqp://h' })).toThrow('ojs-rabbitmq/worker')
  })

  test("calls the given fetch without a `this`, because Chrome's fetch rejects any other", async () => {
    // Chrome throws "Illegal invocation" when `fetch` is called as a method of another object (WebIDL).
    async function fetch(this: unknown, _url: string, init: RequestInit) {
      if (this !== undefined && this !== globalThis) throw new TypeError('Illegal invocation')
      return new Response(JSON.stringify({ job: JSON.parse(String(init.body)) }), { status: 201 })
    }
    const client = new Client({ url: 'https://jobs.example.com', fetch, retry: false })
    expect(await client.enqueue('email.send')).toMatchObject({ type: 'email.send' })
  })

  test('type-checks without the types of Node.js', () => {
    typeCheck(dir, [SDK], { lib: ['es2023', 'dom'], types: [] })
  })
})
