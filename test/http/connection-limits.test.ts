import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import express from 'express'
import { expect, test } from 'vitest'
import { answer } from '../../src/http/answer.ts'
import { Connections } from '../../src/http/connections.ts'
import { CONNECTION_LIMITS, createListener } from '../../src/http/listener.ts'
import type { Route } from '../../src/http/route.ts'
import { EVENTUALLY, serve } from './frame.ts'
import { request } from './raw-client.ts'

test('the limits are at least as strict as ojs-digest §16 wants them', () => {
  expect(CONNECTION_LIMITS.headersTimeoutMs).toBeLessThanOrEqual(30_000)
  expect(CONNECTION_LIMITS.requestTimeoutMs).toBeLessThanOrEqual(60_000)
  expect(CONNECTION_LIMITS.keepAliveTimeoutMs).toBeLessThanOrEqual(120_000)
  expect(CONNECTION_LIMITS.maxHeaderBytes).toBeLessThanOrEqual(16_384)
})

test('a connection on which nothing is ever said is closed', async () => {
  const limits = { headersTimeoutMs: 50, requestTimeoutMs: 100, timeoutCheckMs: 20 }
  const frame = await serve([], { limits })
  const client = await frame.client()
  // Answered, as every request that is late.
  expect((await client.answer()).status).toBe(408)
  expect(await client.closed()).toBe('')
})

test('headers that come byte by byte do not keep a connection', async () => {
  const limits = { headersTimeoutMs: 150, requestTimeoutMs: 300, timeoutCheckMs: 20 }
  const frame = await serve([], { limits })
  const client = await frame.client()
  client.send('GET / HTTP/1.1\r\n')
  const drip = setInterval(() => client.send('A: b\r\n'), 10)
  expect((await client.answer()).status).toBe(408)
  clearInterval(drip)
})

test('a client that does not read its answer is cut off', async () => {
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
  // What telemetry hears when a client was gone before it had its answer.
  await expect.poll(() => frame.done.map(({ status }) => status)).toEqual([0])
  socket.destroy()
})

test('a client that reads at last gets all of it, and no timer is left on its connection', async () => {
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

test.each([false, true])('nothing is kept of a connection that is over; TLS: %s', async (isTls) => {
  // Speaks no TLS either way: with it, this is a connection whose handshake never ends.
  const server = createListener(express(), CONNECTION_LIMITS, undefined)
  const connections = new Connections(server, { isTls, stallTimeoutMs: 60_000 })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const socket = connect({ port, host: '127.0.0.1' })
  await expect.poll(() => connections.size, EVENTUALLY).toBe(1)
  socket.destroy()
  await expect.poll(() => connections.size, EVENTUALLY).toBe(0)
  server.close()
})
