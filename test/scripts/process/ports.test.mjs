import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import {
  freePort,
  isPortFree,
  nextFreePort,
  speaksAmqp,
  takesConnections,
} from '../../../scripts/process/ports.mjs'

let port
/** A server that takes connections and answers in another protocol. */
const server = createServer((socket) => {
  socket.on('error', () => {}).resume()
  socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
})

beforeAll(async () => {
  port = await freePort()
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
})
afterAll(() => new Promise((resolve) => server.close(resolve)))

test('a port with a listener is not free, and nextFreePort skips it', async () => {
  expect(await isPortFree(port)).toBe(false)
  const next = await nextFreePort(port)
  expect(next).toBeGreaterThan(port)
  expect(await isPortFree(next)).toBe(true)
})

/** What `freePort` returns when its first random number is this one. */
async function portFrom(fraction) {
  const random = vi.spyOn(Math, 'random').mockReturnValueOnce(fraction)
  onTestFinished(() => random.mockRestore())
  return await freePort()
}

test('freePort never returns the same port twice', async () => {
  const first = await portFrom(0.123)
  expect(await portFrom(0.123)).not.toBe(first)
})

test.runIf(process.platform === 'linux')(
  'freePort returns no port that another living process got from it',
  async () => {
    const module = new URL('../../../scripts/process/ports.mjs', import.meta.url)
    const code = `import { freePort } from '${module}'
      const { random } = Math
      Math.random = () => {
        Math.random = random
        return 0.456
      }
      process.stdout.write(String(await freePort()))
      process.stdin.resume()`
    const other = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    onTestFinished(() => void other.kill('SIGKILL'))
    const [output] = await once(other.stdout, 'data')
    expect(await portFrom(0.456)).not.toBe(Number(output))
  },
)

test('speaksAmqp is false for another protocol and for a closed port', async () => {
  expect(await speaksAmqp(port)).toBe(false)
  expect(await speaksAmqp(await freePort())).toBe(false)
})

test('takesConnections is true for a port with a listener, and false for a closed port', async () => {
  expect(await takesConnections(port)).toBe(true)
  expect(await takesConnections(await freePort())).toBe(false)
})

test('speaksAmqp is false for a listener that sends nothing within the timeout', async () => {
  const silent = createServer((socket) => socket.on('error', () => {}).resume())
  await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve))
  expect(await speaksAmqp(silent.address().port, { timeoutMs: 50 })).toBe(false)
  // Resolves only because speaksAmqp has closed its connection.
  await new Promise((resolve) => silent.close(resolve))
})
