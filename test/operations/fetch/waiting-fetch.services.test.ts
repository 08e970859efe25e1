import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it, onTestFinished } from 'vitest'
import { freshQueue, gatewayForAll } from '../harness.ts'

const { gateway } = gatewayForAll()

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const MB = 1_000_000
const FETCHES = 10

async function used(): Promise<{ objects: number; buffers: number }> {
  // The current turn may still hold objects of the request that was just answered.
  await new Promise((resolve) => setImmediate(resolve))
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return { objects: heapUsed, buffers: arrayBuffers }
}

let answered = 0

/** Over a bare socket, since `fetch` keeps the body that it has sent. */
function send(body: string): void {
  const { hostname, port } = new URL(gateway.url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  socket.once('data', () => {
    answered += 1
  })
  socket.write(
    `POST /ojs/v1/workers/fetch HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
}

it('a waiting FETCH does not keep its request body in memory', async () => {
  // A body has 0.6 MB, and takes 13 MB of heap once it is parsed.
  const padding = '{},'.repeat(200_000)
  const asked = `"queues":["${freshQueue()}"],"wait_ms":30000`
  const before = await used()
  for (let i = 0; i < FETCHES; i++) {
    send(`{${asked},"worker_id":"w${i}","padding":[${padding}1]}`)
  }
  const known = async () => {
    const { body } = await gateway.request('GET', '/ojs/v1/admin/workers')
    return body.summary.total
  }
  await expect.poll(known, { timeout: 25_000 }).toBe(FETCHES)
  // If the parsed bodies were kept, they would take more than 130 MB.
  await expect.poll(async () => (await used()).objects - before.objects).toBeLessThan(50 * MB)
  await expect.poll(async () => (await used()).buffers - before.buffers).toBeLessThan(4 * MB)
  expect(answered).toBe(0)
})
