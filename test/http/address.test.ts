import { expect, test } from 'vitest'
import { HttpServer } from '../../src/http/http-server.ts'
import { OPEN, recordingLogger, serve } from './frame.ts'

/** A server that is not started, so that its address can only come from its configuration. */
function configured(host: string): HttpServer {
  return new HttpServer({
    host,
    port: 8080,
    routes: [],
    logger: recordingLogger(),
    observer: { requestDone() {} },
    access: OPEN,
    now: Date.now,
    onStopping() {},
    audit() {},
  })
}

test.each([
  ['127.0.0.1', undefined, 'http://127.0.0.1:8080'],
  ['::1', undefined, 'http://[::1]:8080'],
  ['0.0.0.0', undefined, 'http://0.0.0.0:8080'],
  ['0.0.0.0', 'jobs.example.com:81', 'http://jobs.example.com:81'],
  ['::', 'jobs.example.com', 'http://jobs.example.com'],
  ['::', 'user:word@jobs.example.com/path?a#b', 'http://jobs.example.com'],
  ['::', 'no host', 'http://[::]:8080'],
  ['::', undefined, 'http://[::]:8080'],
  ['127.0.0.1', 'jobs.example.com', 'http://127.0.0.1:8080'],
])('HttpServer.url() of a server on %s, reached as %s, is %s', (host, reachedAs, url) => {
  expect(configured(host).url(reachedAs)).toBe(url)
})

test('HttpServer.url() has the assigned port while the server runs, and port 0 after the stop', async () => {
  const { server, port } = await serve([])
  expect(server.url()).toBe(`http://127.0.0.1:${port}`)
  expect(port).toBeGreaterThan(0)
  await server.stop(AbortSignal.timeout(15_000))
  expect(server.url()).toBe('http://127.0.0.1:0')
})
