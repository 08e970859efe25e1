import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { readJson } from '../../../src/http/message/body.ts'
import { answer } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import { errorOf, type Frame, serve, slowRoute, UUID_V7 } from '../frame.ts'
import { request } from '../raw-client.ts'

function slowAndEcho() {
  const { slow, entered, open } = slowRoute()
  const routes: Route[] = [
    slow,
    {
      method: 'POST',
      path: '/echo',
      async handle(req, res) {
        answer(res, 200, JSON.stringify(await readJson(req, res, 10_000)))
      },
    },
    {
      method: 'POST',
      path: '/hasty',
      handle(_request, response) {
        answer(response, 200, '{"hasty":true}')
      },
    },
  ]
  return { routes, open, entered }
}

const CHUNKED = { 'Transfer-Encoding': 'chunked' }
const CODED = 'Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n'
const post = (headers: Record<string, string>, body = '') =>
  Buffer.concat([request('POST', '/echo', headers), Buffer.from(body)])

describe('a request that the HTTP parser refuses', () => {
  const rows: [name: string, bytes: Buffer | string, status: number, code: string][] = [
    ['no HTTP at all', 'hello\r\n\r\n', 400, 'invalid_request'],
    ['an unknown method', request('BREW', '/echo'), 400, 'invalid_request'],
    ['a lower-case method', request('get', '/echo'), 400, 'invalid_request'],
    ['a bad version', 'GET / HTTP/9.9\r\nHost: a\r\n\r\n', 400, 'invalid_request'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 'invalid_request'],
    ['TLS', Buffer.from('16030100c8010000c40303', 'hex'), 400, 'invalid_request'],
    [
      'a header without a colon',
      'GET / HTTP/1.1\r\nHost: a\r\nfoo\r\n\r\n',
      400,
      'invalid_request',
    ],
    ['a space before the colon', 'GET / HTTP/1.1\r\nHost : a\r\n\r\n', 400, 'invalid_request'],
    [
      'a control character in a header',
      request('GET', '/', { A: 'x\u0001y' }),
      400,
      'invalid_request',
    ],
    ['a bad Content-Length', post({ 'Content-Length': '1x' }, '{}'), 400, 'invalid_request'],
    ['a negative Content-Length', post({ 'Content-Length': '-1' }, '{}'), 400, 'invalid_request'],
    [
      'two Content-Lengths',
      `POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      400,
      'invalid_request',
    ],
    [
      'Content-Length and chunked',
      post({ ...CHUNKED, 'Content-Length': '2' }, '2\r\n{}\r\n0\r\n\r\n'),
      400,
      'invalid_request',
    ],
    [
      'chunked, but not last',
      post({ 'Transfer-Encoding': 'chunked, gzip' }, '{}'),
      400,
      'invalid_request',
    ],
    [
      'a coding beside chunked',
      post({ 'Transfer-Encoding': 'gzip, chunked' }, '2\r\n{}\r\n0\r\n\r\n'),
      501,
      'unsupported',
    ],
    [
      'a coding beside chunked, behind a thousand headers',
      `POST /echo HTTP/1.1\r\nHost: a\r\n${'a:\r\n'.repeat(1_010)}${CODED}`,
      501,
      'unsupported',
    ],
    [
      'chunks in HTTP/1.0, which does not know them',
      `POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      400,
      'invalid_request',
    ],
    ['a bad chunk size', post(CHUNKED, 'zz\r\n{}\r\n0\r\n\r\n'), 400, 'invalid_request'],
    ['a chunk that is too long', post(CHUNKED, '2\r\n{}}}\r\n0\r\n\r\n'), 400, 'invalid_request'],
    [
      'headers above 16 KiB',
      request('GET', '/', { A: 'x'.repeat(17_000) }),
      431,
      'invalid_request',
    ],
    ['a path above 16 KiB', request('GET', `/${'x'.repeat(17_000)}`), 431, 'invalid_request'],
    ['endless chunk extensions', post(CHUNKED, `2;${'x'.repeat(17_000)}`), 413, 'invalid_request'],
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405, 'invalid_request'],
    ['an impossible target', request('GET', 'http://[::1/x'), 400, 'invalid_request'],
    ['a target without a path', request('GET', 'foo://bar'), 400, 'invalid_request'],
    ['an impossible port', request('GET', 'http://a:999999/x'), 400, 'invalid_request'],
    ['an expectation', request('GET', '/', { Expect: 'miracles' }), 417, 'invalid_request'],
  ]

  test.each(rows)('is answered with an OJS error: %s', async (_name, bytes, status, code) => {
    const frame = await serve(slowAndEcho().routes)
    const client = await frame.client()
    client.send(bytes)
    const result = await client.answer()
    const error = errorOf(result)
    expect({ status: result.status, code: error.code }).toEqual({ status, code })
    expect(error.request_id).toMatch(UUID_V7)
    expect(result.headers).toHaveProperty('date')
    if (result.headers['connection'] === 'close') expect(await client.closed()).toBe('')
    expect(frame.log).toEqual([])
  })

  test('is answered with Allow if it is a CONNECT, and a reset afterwards does not stop the server', async () => {
    const frame = await serve(slowAndEcho().routes)
    const client = await frame.client()
    client.send('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n')
    expect((await client.answer()).headers['allow']).toBe('GET, HEAD, POST, PUT, DELETE, OPTIONS')
    client.socket.resetAndDestroy()
    expect((await frame.ask(request('POST', '/echo', {}, '{"a":1}'))).status).toBe(200)
  })

  test.each([
    ['POST', '', 400],
    ['OPTIONS', 'Origin: https://a.test\r\nAccess-Control-Request-Method: POST\r\n', 204],
  ])(
    'is the last of its connection if it has chunks in HTTP/1.0 (%s)',
    async (method, headers, status) => {
      const access = { apiKeys: [], corsOrigins: ['https://a.test'], rateLimit: undefined }
      const frame = await serve(slowAndEcho().routes, { access })
      const client = await frame.client()
      const kept = 'HTTP/1.0\r\nConnection: keep-alive\r\n'
      const chunks = 'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n'
      client.send(`${method} /echo ${kept}${headers}${chunks}GET /echo ${kept}\r\n`)
      expect((await client.answer()).status).toBe(status)
      expect(await client.closed()).toBe('')
    },
  )

  test('does not stop the server', async () => {
    const frame = await serve(slowAndEcho().routes)
    await frame.ask('nonsense\r\n\r\n')
    expect((await frame.ask(request('POST', '/echo', {}, '{"a":1}'))).status).toBe(200)
  })
})

describe('a request and its timeouts', () => {
  const limits = { headersTimeoutMs: 100, requestTimeoutMs: 200, timeoutCheckMs: 20 }
  const late = async (frame: Frame, bytes: string | Buffer) => {
    const client = await frame.client()
    client.send(bytes)
    const result = await client.answer()
    const error = errorOf(result)
    expect(error).toMatchObject({ code: 'backend_error', retryable: true })
    expect(await client.closed()).toBe('')
    return result
  }

  test('is answered 408 if its headers do not end', async () => {
    const frame = await serve(slowAndEcho().routes, { limits })
    expect((await late(frame, 'GET / HTTP/1.1\r\nHost: a\r\n')).status).toBe(408)
  })

  test('is answered 408 with its own request id if its body does not come', async () => {
    // A timeout before the headers are read cannot know the id; so the headers get the longest time.
    const patient = { ...limits, headersTimeoutMs: 2_000, requestTimeoutMs: 2_000 }
    const frame = await serve(slowAndEcho().routes, { limits: patient })
    const bytes = post({ 'Content-Length': '100', 'X-Request-Id': 'req_late' }, '{"a":')
    const result = await late(frame, bytes)
    expect(result.status).toBe(408)
    expect(result.headers['x-request-id']).toBe('req_late')
  })

  test('is answered 200 if only its answer takes longer than the limits', async () => {
    const { routes, open, entered } = slowAndEcho()
    const frame = await serve(routes, { limits })
    const client = await frame.client()
    client.send(request('GET', '/slow'))
    await entered
    // Three times as long as the limit.
    await new Promise((resolve) => setTimeout(resolve, 600))
    open()
    expect((await client.answer()).status).toBe(200)
  })
})

describe('garbage behind a valid request', () => {
  test('is answered 400 after the answer to the request', async () => {
    const { routes, open, entered } = slowAndEcho()
    const frame = await serve(routes)
    const client = await frame.client()
    client.send(Buffer.concat([request('GET', '/slow'), Buffer.from('garbage\r\n\r\n')]))
    await entered
    open()
    expect(await client.answer()).toMatchObject({ status: 200, body: '{"slow":true}' })
    const refused = await client.answer()
    expect(refused.status).toBe(400)
    errorOf(refused)
    expect(await client.closed()).toBe('')
  })

  test('is answered 400 after the answer to the request, also if it is a broken body', async () => {
    const { routes, open, entered } = slowAndEcho()
    const frame = await serve(routes)
    const client = await frame.client()
    client.send(Buffer.concat([request('GET', '/slow'), post(CHUNKED, 'zz\r\n')]))
    await entered
    open()
    expect((await client.answer()).body).toBe('{"slow":true}')
    expect((await client.answer()).status).toBe(400)
    expect(await client.closed()).toBe('')
  })

  test('is answered 400 on a connection that is used again', async () => {
    const frame = await serve(slowAndEcho().routes)
    const client = await frame.client()
    client.send(request('POST', '/echo', {}, '{"a":1}'))
    expect((await client.answer()).status).toBe(200)
    client.send('garbage\r\n\r\n')
    expect((await client.answer()).status).toBe(400)
    expect(await client.closed()).toBe('')
  })

  test('gets no second answer if it is in a body that was answered already', async () => {
    const frame = await serve(slowAndEcho().routes)
    const client = await frame.client()
    client.send(request('POST', '/hasty', CHUNKED))
    expect((await client.answer()).body).toBe('{"hasty":true}')
    client.send('zz\r\n')
    expect(await client.closed()).toBe('')
  })

  test('may continue for a moment: the client is not reset while it sends', async () => {
    const frame = await serve(slowAndEcho().routes)
    const client = await frame.client()
    client.socket.allowHalfOpen = true
    client.send('garbage\r\n\r\n')
    await client.answer()
    for (let i = 0; i < 10; i++) {
      client.send('more garbage\r\n\r\n')
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    client.socket.end()
    expect(await client.closed()).toBe('')
    expect(client.failure).toBeUndefined()
  })

  test('leads to a disconnect if the client neither sends anything nor closes', async () => {
    const frame = await serve(slowAndEcho().routes)
    const closed = closeOfNextConnection()
    const client = await frame.client()
    client.socket.allowHalfOpen = true
    client.send('garbage\r\n\r\n')
    expect((await client.answer()).status).toBe(400)
    await closed
  })
})

/** Resolves when the server's side of the next connection is closed, which a client cannot always see. */
function closeOfNextConnection(): Promise<unknown> {
  return new Promise((resolve) => {
    const accepted = (message: unknown) => {
      unsubscribe('net.server.socket', accepted)
      ;(message as { socket: Socket }).socket.once('close', resolve)
    }
    subscribe('net.server.socket', accepted)
  })
}
