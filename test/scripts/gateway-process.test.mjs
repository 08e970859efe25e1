import { once } from 'node:events'
import { createServer } from 'node:net'
import { constants } from 'node:os'
import { expect, it } from 'vitest'
import { chooseAddress, startGateway, stillFree } from '../../scripts/gateway-process.mjs'
import { freePort, isPortFree } from '../../scripts/ports.mjs'

/** It gets no further than this: there may be no build, and it would end by itself. */
const STANDS_STILL =
  '--import=data:text/javascript,await(new%20Promise((end)=>setTimeout(end,60000)))'

// As the shell tells it: "exit code 1" would send whoever was out of memory looking for an error.
it('a gateway that a signal has ended has its exit code', async () => {
  const gateway = startGateway({ NODE_OPTIONS: STANDS_STILL })
  await gateway.stop('SIGKILL', new AbortController().signal)
  expect(await gateway.exited).toBe(128 + constants.signals.SIGKILL)
})

it('a gateway is asked for where a client can go, whatever it listens on', async () => {
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

it('a port that is named is that or none', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  await expect(chooseAddress({ OJS_PORT: String(port) })).rejects.toThrow(
    `OJS_PORT=${port} is taken on 127.0.0.1.`,
  )
  server.close()
  // Not taken: it is none of ours.
  await expect(chooseAddress({ OJS_PORT: '9000', OJS_HOST: '203.0.113.7' })).rejects.toThrow(
    'cannot be listened on',
  )
  for (const mistake of ['80x', '-1', '65536', '123456', ' 80']) {
    await expect(chooseAddress({ OJS_PORT: mistake })).rejects.toThrow('is not a port number')
  }
  expect((await chooseAddress({ OJS_PORT: '0' })).port).toBeGreaterThan(0)
})

it('a port that somebody else has taken meanwhile is another one', async () => {
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
