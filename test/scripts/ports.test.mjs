import { createServer } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import {
  freePort,
  isPortFree,
  nextFreePort,
  speaksAmqp,
  takesConnections,
} from '../../scripts/ports.mjs'

/** Where a random port is sought. */
const FRACTION = 0.123

let port
/** Listens, takes connections and answers as another protocol would. */
const server = createServer((socket) => {
  socket.on('error', () => {}).resume()
  socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
})

beforeAll(async () => {
  port = await freePort()
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
})
afterAll(() => new Promise((resolve) => server.close(resolve)))

test('a port that somebody listens on is not free, and the next one is chosen', async () => {
  expect(await isPortFree(port)).toBe(false)
  const next = await nextFreePort(port)
  expect(next).toBeGreaterThan(port)
  expect(await isPortFree(next)).toBe(true)
})

test('the same free port is never handed out twice', async () => {
  const random = vi.spyOn(Math, 'random')
  onTestFinished(() => random.mockRestore())
  random.mockReturnValueOnce(FRACTION)
  const first = await freePort()
  random.mockReturnValueOnce(FRACTION)
  expect(await freePort()).not.toBe(first)
})

test('what answers in another protocol is no broker, nor is a closed port', async () => {
  expect(await speaksAmqp(port)).toBe(false)
  expect(await speaksAmqp(await freePort())).toBe(false)
})

test('whatever listens takes connections, a closed port does not', async () => {
  expect(await takesConnections(port)).toBe(true)
  expect(await takesConnections(await freePort())).toBe(false)
})

test('who listens and says nothing is no broker, and is not waited for', async () => {
  const silent = createServer((socket) => socket.on('error', () => {}).resume())
  await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve))
  expect(await speaksAmqp(silent.address().port, { timeoutMs: 50 })).toBe(false)
  // Whom it has asked is let go.
  await new Promise((resolve) => silent.close(resolve))
})
