import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { findBroker } from '../../../scripts/broker/find-broker.mjs'

afterEach(() => vi.unstubAllEnvs())

const URL = 'amqp://127.0.0.1:1'

it('findBroker takes the broker of OJS_AMQP_URL', async () => {
  vi.stubEnv('OJS_AMQP_URL', URL)
  expect(await findBroker(new AbortController().signal)).toMatchObject({ url: URL })
})

it('findBroker neither searches nor installs a broker after an interruption', async () => {
  vi.stubEnv('OJS_AMQP_URL', URL)
  await expect(findBroker(AbortSignal.abort())).rejects.toThrow('aborted')
})

it('findBroker reads OJS_AMQP_URL_FILE, and takes no other broker when that fails', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ojs-url-'))
  try {
    const path = join(folder, 'url')
    vi.stubEnv('OJS_AMQP_URL_FILE', path)
    const { signal } = new AbortController()
    await expect(findBroker(signal)).rejects.toThrow(`'${path}' cannot be read (ENOENT)`)
    writeFileSync(path, '\n')
    await expect(findBroker(signal)).rejects.toThrow(`'${path}' is empty`)
    writeFileSync(path, `${URL}\n`)
    expect(await findBroker(signal)).toMatchObject({ url: URL })
    vi.stubEnv('OJS_AMQP_URL', URL)
    await expect(findBroker(signal)).rejects.toThrow('both set')
  } finally {
    rmSync(folder, { recursive: true })
  }
})
