import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { HttpTransport } from '../../../src/sdk/transport/http-transport.ts'
import { nodeFetch } from '../../../src/sdk/transport/node-fetch.ts'

let server: Server
afterEach(() => {
  server.closeAllConnections()
  server.close()
  vi.unstubAllGlobals()
})

async function serve(listener: RequestListener): Promise<string> {
  server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function newTransport(url: string, timeout = 60_000): HttpTransport {
  const fetch = nodeFetch()
  if (!fetch) throw new Error('not in Node.js')
  return new HttpTransport({ url, fetch, timeout, retry: false })
}

describe('nodeFetch behind HttpTransport', () => {
  it('sends and receives JSON, and reuses its connection', async () => {
    const ports = new Set<unknown>()
    const url = await serve((request, response) => {
      ports.add(request.socket.remotePort)
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const { method, url: path, headers } = request
        const body = Buffer.concat(chunks).toString()
        response.setHeader('X-Request-Id', 'r1')
        response.end(JSON.stringify({ method, path, type: headers['content-type'], body }))
      })
    })
    const transport = newTransport(url)
    for (const text of ['plain', 'ünï😀'.repeat(20_000)]) {
      const opts = { method: 'POST', path: '/workers/ack', body: { text } }
      const answer = await transport.request(opts)
      expect(answer).toMatchObject({
        status: 200,
        headers: { 'x-request-id': 'r1' },
        body: {
          method: 'POST',
          path: '/ojs/v1/workers/ack',
          type: 'application/openjobspec+json',
          body: JSON.stringify({ text }),
        },
      })
    }
    expect(ports.size).toBe(1)
  })

  it('reuses a connection after 4.5 s of idling if the server announces a longer keep-alive', async () => {
    const ports = new Set<unknown>()
    const url = await serve((request, response) => {
      ports.add(request.socket.remotePort)
      response.end('{}')
    })
    server.keepAliveTimeout = 120_000
    const transport = newTransport(url)
    await transport.request({ method: 'POST', path: '/x', body: {} })
    // Without an announced keep-alive, the client closes an idle connection after 4 s.
    await sleep(4_500)
    await transport.request({ method: 'POST', path: '/x', body: {} })
    expect(ports.size).toBe(1)
  })

  it("rejects with the server's error: status, message and Retry-After", async () => {
    const error = { code: 'invalid_request', message: 'late', retryable: false }
    const url = await serve((_request, response) => {
      response.writeHead(409, { 'Retry-After': '7' }).end(JSON.stringify({ error }))
    })
    const request = newTransport(url).request({ method: 'POST', path: '/x', body: {} })
    await expect(request).rejects.toMatchObject({ status: 409, retryAfter: 7, message: 'late' })
  })

  it('rejects with kind aborted when the signal fires, and kind timeout at the time limit', async () => {
    const url = await serve(() => undefined)
    const controller = new AbortController()
    const opts = { method: 'POST', path: '/x', body: {} }
    const aborted = newTransport(url).request({ ...opts, signal: controller.signal })
    const late = newTransport(url, 50).request(opts)
    await expect(late).rejects.toMatchObject({ kind: 'timeout' })
    controller.abort()
    await expect(aborted).rejects.toMatchObject({ kind: 'aborted' })
  })

  it('rejects with kind network when the connection is refused, or breaks within a response', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(200, { 'Content-Length': 100 })
      response.write('{"half":')
      setImmediate(() => response.destroy())
    })
    const opts = { method: 'POST', path: '/x', body: {} }
    await expect(newTransport(url).request(opts)).rejects.toMatchObject({ kind: 'network' })
    server.close()
    await once(server, 'close')
    const refused = newTransport(url).request(opts)
    await expect(refused).rejects.toMatchObject({ kind: 'network' })
    await expect(refused).rejects.toThrow('ECONNREFUSED')
  })

  it('rejects with kind network when the server answers 101 Switching Protocols', async () => {
    const url = await serve(({ socket }) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
    })
    const request = newTransport(url).request({ method: 'POST', path: '/x', body: {} })
    await expect(request).rejects.toMatchObject({ kind: 'network' })
  }, 5_000)

  it('is undefined in a browser', async () => {
    await serve(() => undefined)
    vi.stubGlobal('process', undefined)
    expect(nodeFetch()).toBeUndefined()
  })
})
