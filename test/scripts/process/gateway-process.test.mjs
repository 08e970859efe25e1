import { once } from 'node:events'
import { createServer } from 'node:net'
import { constants } from 'node:os'
import { expect, it } from 'vitest'
import {
  chooseAddress,
  startGateway,
  stillFree,
} from '../../../scripts/process/gateway-process.mjs'
import { freePort, isPortFree } from '../../../scripts/process/ports.mjs'

/** Keeps the process at its start. There may be no build, and then it would end by itself. */
const STANDS_STILL =
  '--import=data:text/javascript,await(new%20Promise((end)=>setTimeout(end,60000)))'

// The exit code of a shell: with "exit code 1", a process that was out of memory would seem to have an error.
it('a gateway that a signal ended has the exit code of that signal', async () => {
  const gateway = startGateway({ NODE_OPTIONS: STANDS_STILL })
  await gateway.stop('SIGKILL', new AbortController().signal)
  expect(await gateway.exited).toBe(128 + constants.signals.SIGKILL)
})

it('the URL of a gateway has an address that a client can reach', async () => {
  const port = await freePort()
  const urlOf = async (env) => (await chooseAddress({ OJS_PORT: String(port), ...env })).url
  expect(await urlOf({})).toBe(`http://127.0.0.1:${port}`)
  expect(await urlOf({ OJS_HOST: '0.0.0.0' })).toBe(`http://127.0.0.1:${port}`)
  expect(await urlOf({ OJS_HOST: 'localhost', OJS_TLS_CERT: 'c.pem' })).toBe(
    `https://localhost:${port}`,
  )
  if (!(await isPortFree(port, '::1').catch(() => false))) return // No IPv6 here.
  expect(await urlOf({ OJS_HOST: '::1' })).toBe(`http://[::1]:${port}`)
  expect(await urlOf({ OJS_HOST: '::' })).toBe(`http://127.0.0.1:${port}`)
})

it('chooseAddress takes a given port or fails', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  await expect(chooseAddress({ OJS_PORT: String(port) })).rejects.toThrow(
    `OJS_PORT=${port} is taken on 127.0.0.1.`,
  )
  server.close()
  // The port is not taken, but the address is one of another machine.
  await expect(chooseAddress({ OJS_PORT: '9000', OJS_HOST: '203.0.113.7' })).rejects.toThrow(
    'cannot be listened on',
  )
  for (const mistake of ['80x', '-1', '65536', '123456', ' 80']) {
    await expect(chooseAddress({ OJS_PORT: mistake })).rejects.toThrow('is not a port number')
  }
  expect((await chooseAddress({ OJS_PORT: '0' })).port).toBeGreaterThan(0)
})

it('stillFree chooses another port when a port that was chosen freely is taken meanwhile', async () => {
  const env = { OJS_PORT: '0' }
  const chosen = await chooseAddress(env)
  expect(await stillFree(chosen, env)).toBe(chosen)
  const server = createServer().listen(chosen.port, chosen.host)
  await once(server, 'listening')
  const other = await stillFree(chosen, env)
  server.close()
  expect(other.port).not.toBe(chosen.port)
  expect(other.url).toBe(`http://127.0.0.1:${other.port}`)
})
