import { constants } from 'node:os'
import { expect, it } from 'vitest'
import { startGateway } from '../../scripts/gateway-process.mjs'

// As the shell tells it: "exit code 1" would send whoever was out of memory looking for an error.
it('a gateway that a signal has ended has its exit code', async () => {
  const gateway = startGateway({ OJS_PORT: '0', OJS_AMQP_URL: 'amqp://127.0.0.1:1' })
  await gateway.stop('SIGKILL', new AbortController().signal)
  expect(await gateway.exited).toBe(128 + constants.signals.SIGKILL)
})
