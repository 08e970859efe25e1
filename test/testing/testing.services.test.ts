import { readdirSync } from 'node:fs'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { testVariables } from '../../scripts/test/environment.mjs'
import { OJSClient, OJSWorker } from '../../src/sdk/index.ts'
import { startTestServer, type TestServer } from '../../src/testing/index.ts'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const image = process.env[testVariables.image]

/** The integration test of a user, in short. */
async function runAJob({ url }: TestServer): Promise<unknown> {
  const client = new OJSClient({ url })
  const worker = new OJSWorker({ url, queues: ['default'], handleSignals: false })
  worker.register('test.add', ({ args: [a, b] }) => Number(a) + Number(b))
  await worker.start()
  try {
    const { id } = await client.enqueue('test.add', [2, 3])
    return (await client.result(id, { timeoutMs: 30_000 })).result
  } finally {
    await worker.stop()
  }
}

describe('startTestServer with a RabbitMQ that runs', () => {
  const vhost = vhostForAll()
  let tmp: string
  beforeEach(() => {
    const { path, remove } = temporaryDirectory()
    tmp = path
    vi.stubEnv('TMPDIR', path)
    onTestFinished(() => {
      vi.unstubAllEnvs()
      remove()
    })
  })

  it('runs a job, and leaves nothing when it is stopped, however often', async () => {
    const server = await startTestServer({ amqpUrl: vhost.url })
    try {
      expect(server.amqpUrl).toBe(vhost.url)
      expect(await runAJob(server)).toBe(5)
    } finally {
      await server.stop()
    }
    await server.stop()
    expect(readdirSync(tmp)).toEqual([])
    await expect(fetch(server.url)).rejects.toThrow()
  })

  it('refuses wrong settings, and leaves nothing', async () => {
    const started = startTestServer({ amqpUrl: vhost.url, env: { OJS_QUEUE_TYPE: 'paper' } })
    await expect(started).rejects.toThrow('OJS_QUEUE_TYPE')
    expect(readdirSync(tmp)).toEqual([])
  })
})

describe.runIf(image)('startTestServer with Docker', () => {
  it('starts a RabbitMQ and a gateway for each call', async () => {
    const server = await startTestServer({ image: String(image) })
    try {
      expect(await runAJob(server)).toBe(5)
    } finally {
      await server.stop()
    }
  })
})
