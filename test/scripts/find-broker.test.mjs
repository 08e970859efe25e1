import { afterEach, expect, it, vi } from 'vitest'
import { findBroker } from '../../scripts/find-broker.mjs'

afterEach(() => vi.unstubAllEnvs())

const URL = 'amqp://127.0.0.1:1'

it('takes the broker that it is told of', async () => {
  vi.stubEnv('OJS_AMQP_URL', URL)
  expect(await findBroker(new AbortController().signal)).toMatchObject({ url: URL })
})

it('looks for none, and installs none, for whom has interrupted it', async () => {
  vi.stubEnv('OJS_AMQP_URL', URL)
  await expect(findBroker(AbortSignal.abort())).rejects.toThrow('aborted')
})
