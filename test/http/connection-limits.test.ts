import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import express from 'express'
import { expect, test } from 'vitest'
import { Connections } from '../../src/http/connection/connections.ts'
import { CONNECTION_LIMITS, createListener } from '../../src/http/connection/listener.ts'
import { answer } from '../../src/http/message/respond.ts'
import type { Route } from '../../src/http/route.ts'
import { EVENTUALLY, serve } from './frame.ts'
import { request } from './raw-client.ts'

test('CONNECTION_LIMITS are at least as strict as OJS security asks for', () => {
  expect(CONNECTION_LIMITS.headersTimeoutMs).toBeLessThanOrEqual(30_000)
  expect(CONNECTION_LIMITS.requestTimeoutMs).toBeLessThanOrEqual(60_000)
  expect(CONNECTION_LIMITS.keepAliveTimeoutMs).toBeLessThanOrEqual(120_000)
  expect(CONNECTION_LIMITS.maxHeaderBytes).toBeLessThanOrEqual(16_384)
})

test('a connection without a request is answered 408 and closed', async () => {
  const limits = { headersTimeoutMs: 50, requestTimeoutMs: 100, timeoutCheckMs: 20 }
  const frame = await serve([], { limits })
  const client = await frame.client()
  // The same answer as for every request that is late.
  expect((await client.answer()).status).toBe(408)
  expect(await client.closed()).toBe('')
})

test('headers that come slowly are answered 408 at headersTimeoutMs', async () => {
  const limits = { headersTimeoutMs: 150, requestTimeoutMs: 300, timeoutCheckMs: 20 }
  const frame = await serve([], { limits })
  const client = await frame.client()
  client.send('GET / HTTP/1.1\r\n')
  const drip = setInterval(() => client.send('A: b\r\n'), 10)
  expect((await client.answer()).status).toBe(408)
  clearInterval(drip)
})

test('a client that does not read its answer is disconnected after stallTimeoutMs', async () => {
  const large = JSON.stringify({ text: 'x'.repeat(30_000_000) })
  const route: Route = {
    method: 'GET',
    path: '/large',
    handle: (_request, response) => answer(response, 200, large),
  }
  const frame = await serve([route], { limits: { stallTimeoutMs: 100 } })
  const socket = connect({ port: frame.port, host: '127.0.0.1' })
  socket.pause()
  await once(socket, 'connect')
  socket.write(request('GET', '/large'))
  // Status 0 stands for a client that was gone before it had its answer.
  await expect.poll(() => frame.done.map(({ status }) => status)).toEqual([0])
  socket.destroy()
})

test('a client that reads its answer late gets all of it, and the stall timeout is removed', async () => {
  const large = JSON.stringify({ text: 'x'.repeat(30_000_000) })
  let socket: Socket | undefined
  const route: Route = {
    method: 'GET',
    path: '/large',
    handle(request, response) {
      socket = request.socket
      answer(response, 200, large)
    },
  }
  const stallTimeoutMs = 15_000
  const frame = await serve([route], { limits: { stallTimeoutMs } })
  const client = connect({ port: frame.port, host: '127.0.0.1' })
  await once(client, 'connect')
  client.write(request('GET', '/large'))
  await expect.poll(() => socket?.timeout, { timeout: 20_000 }).toBe(stallTimeoutMs)
  let received = 0
  client.on('data', (chunk) => {
    received += chunk.length
  })
  await expect.poll(() => received, EVENTUALLY).toBeGreaterThan(large.length)
  await expect.poll(() => socket?.timeout, EVENTUALLY).toBeGreaterThan(stallTimeoutMs)
  client.destroy()
})

test.each([false, true])(
  'Connections forgets a connection that is closed; TLS: %s',
  async (isTls) => {
    // The client speaks no TLS. With `isTls`, this is therefore a connection whose handshake never ends.
    const server = createListener(express(), CONNECTION_LIMITS, undefined)
    const connections = new Connections(server, { isTls, stallTimeoutMs: 60_000 })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const socket = connect({ port, host: '127.0.0.1' })
    await expect.poll(() => connections.size, EVENTUALLY).toBe(1)
    socket.destroy()
    await expect.poll(() => connections.size, EVENTUALLY).toBe(0)
    server.close()
  },
)
