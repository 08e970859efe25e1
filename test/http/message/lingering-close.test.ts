import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { closeLingering } from '../../../src/http/message/lingering-close.ts'

const LOOK_MS = 2_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
})

/** A client, and the server's side of its connection, which is being closed. */
async function closing(): Promise<{ client: Socket; served: Socket }> {
  const server = createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const accepted = once(server, 'connection')
  const client = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
  const [served] = await accepted
  onTestFinished(() => {
    client.destroy()
    served.destroy()
    server.close()
  })
  closeLingering(served)
  client.resume()
  await once(client, 'end')
  return { client, served }
}

async function sendSome(client: Socket, served: Socket): Promise<void> {
  const arrived = once(served, 'data')
  client.write('x')
  await arrived
}

test('a refused client may go on sending for half a minute', async () => {
  const { client, served } = await closing()
  for (let elapsed = LOOK_MS; elapsed <= 30_000; elapsed += LOOK_MS) {
    await sendSome(client, served)
    vi.advanceTimersByTime(LOOK_MS)
    expect(served.destroyed, `after ${elapsed} ms`).toBe(false)
  }
  await sendSome(client, served)
  vi.advanceTimersByTime(LOOK_MS)
  expect(served.destroyed).toBe(true)
})

test('a refused client that sends nothing is cut off after two seconds, earlier bytes or not', async () => {
  const { client, served } = await closing()
  await sendSome(client, served)
  vi.advanceTimersByTime(LOOK_MS)
  vi.advanceTimersByTime(LOOK_MS)
  expect(served.destroyed).toBe(true)
})

test('a refused client that has closed is forgotten', async () => {
  const { client, served } = await closing()
  client.end()
  await once(served, 'close')
  expect(vi.getTimerCount()).toBe(0)
})
