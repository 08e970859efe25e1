import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test, vi } from 'vitest'
import { bundled, ROOT, SDK, scratchDir, typeCheck } from './bundle.ts'
import { serverForAll } from './server.ts'

const server = serverForAll()
const dir = scratchDir()

test("the client's example in the README, as it is but for package and URL", async () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const [, code = ''] = /## TypeScript SDK[\s\S]*?```ts\n([\s\S]*?)```/.exec(readme) ?? []
  const file = join(dir, 'readme.mts')
  const own = code
    .replace("'ojs-rabbitmq/sdk'", JSON.stringify(SDK))
    .replace("'http://127.0.0.1:8080'", JSON.stringify(server.url))
  expect(own).toContain(server.url)
  writeFileSync(file, own)
  typeCheck(dir, [file], { types: ['node'] })
  const built = join(dir, 'readme.mjs')
  writeFileSync(built, (await bundled(file, 'node')).code)
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  try {
    await import(/* @vite-ignore */ pathToFileURL(built).href)
    expect(log.mock.calls).toEqual([
      ['scheduled'],
      ['invalid_request', 409, expect.stringMatching(/./)],
    ])
  } finally {
    log.mockRestore()
  }
}, 60_000)
