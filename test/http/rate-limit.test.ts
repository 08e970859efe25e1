import { describe, expect, test } from 'vitest'
import { newApiKey, parseApiKeys } from '../../src/http/access/api-keys.ts'
import { readJson } from '../../src/http/message/body.ts'
import { answer, answerEmpty, answerText } from '../../src/http/message/respond.ts'
import type { Route } from '../../src/http/route.ts'
import { openDoor } from './door.ts'
import { errorOf, type Frame, serve } from './frame.ts'
import { type RawAnswer, request } from './raw-client.ts'

/** 2026-02-12T10:30:00.250Z, so that a window ends between two full seconds. */
const NOW = 1_770_892_200_250
const RESET = String(Math.ceil((NOW + 60_000) / 1_000))
const [a, b] = [newApiKey('a', 'admin'), newApiKey('b', 'admin')]
const apiKeys = parseApiKeys(`${a.entry},${b.entry}`, [])
const limited = (limit: number, keys = false) => ({
  apiKeys: keys ? apiKeys : [],
  corsOrigins: [],
  rateLimit: { limit, windowMs: 60_000 },
})

const ROUTES: Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/workers/ack',
    handle: (_request, response) => answer(response, 200, '{}'),
  },
  { method: 'GET', path: '/thing', handle: (_request, response) => answer(response, 200, '{}') },
  { method: 'DELETE', path: '/thing', handle: (_request, response) => answerEmpty(response) },
  {
    method: 'GET',
    path: '/text',
    handle: (_request, response) => answerText(response, 'text/plain', 'a 1\n'),
  },
  {
    method: 'GET',
    path: '/ojs/v1/health',
    access: 'anybody',
    handle: (_request, response) => answer(response, 200, '{}'),
  },
  {
    method: 'GET',
    path: '/broken',
    handle() {
      throw new Error('broken')
    },
  },
  {
    method: 'POST',
    path: '/echo',
    async handle(req, res) {
      answer(res, 200, JSON.stringify(await readJson(req, res, 1_000)))
    },
  },
]

const limitHeaders = ({ headers }: RawAnswer) => [
  headers['x-ratelimit-limit'],
  headers['x-ratelimit-remaining'],
  headers['x-ratelimit-reset'],
]
const THING = request('GET', '/thing')

async function serveLimited(
  limit: number,
  keys = false,
): Promise<Frame & { at(ms: number): void }> {
  let now = NOW
  const frame = await serve(ROUTES, { access: limited(limit, keys), now: () => now })
  return {
    ...frame,
    at: (ms) => {
      now = NOW + ms
    },
  }
}

describe('the X-RateLimit headers', () => {
  const chunked = { 'Transfer-Encoding': 'chunked' }
  const rows: [name: string, bytes: Buffer | string, status: number][] = [
    ['a result', THING, 200],
    ['text', request('GET', '/text'), 200],
    ['nothing', request('DELETE', '/thing'), 204],
    ['HEAD', request('HEAD', '/thing'), 200],
    ['OPTIONS', request('OPTIONS', '/thing'), 204],
    ['404', request('GET', '/nowhere'), 404],
    ['405', request('PUT', '/thing'), 405],
    ['400', request('POST', '/echo', {}, '{'), 400],
    ['413', request('POST', '/echo', {}, 'x'.repeat(2_000)), 413],
    ['422', request('GET', '/thing', { 'OJS-Version': '9' }), 422],
    ['500', request('GET', '/broken'), 500],
    ['403', request('POST', '/echo', { Origin: 'https://evil.example' }), 403],
    ['no Host', request('GET', '/thing', { Host: undefined }), 400],
    ['a bad target', request('GET', 'http://[::1/x'), 400],
    ['417', request('GET', '/thing', { Expect: 'miracles' }), 417],
    [
      'a broken body',
      Buffer.concat([request('POST', '/echo', chunked), Buffer.from('zz\r\n')]),
      400,
    ],
    ['no HTTP', 'garbage\r\n\r\n', 400],
    ['431', request('GET', '/thing', { A: 'x'.repeat(17_000) }), 431],
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
  ]

  test.each(rows)('count the request in the answer: %s', async (_name, bytes, status) => {
    const frame = await serveLimited(10)
    const result = await frame.ask(bytes)
    expect(result.status).toBe(status)
    expect(limitHeaders(result)).toEqual(['10', '9', RESET])
    expect(limitHeaders(await frame.ask(THING))).toEqual(['10', '8', RESET])
  })

  test.each(rows)('are in the 429 for a request beyond the limit: %s', async (name, bytes) => {
    const frame = await serveLimited(1)
    await frame.ask(THING)
    const result = await frame.ask(bytes)
    // A body that breaks after the refusal only closes the connection: the 429 was already the answer.
    expect(result.status).toBe(429)
    expect(limitHeaders(result)).toEqual(['1', '0', RESET])
    expect(result.headers['retry-after']).toBe('60')
    if (name !== 'HEAD') expect(errorOf(result).code).toBe('rate_limited')
  })

  test.each(rows)('are absent without OJS_RATE_LIMIT: %s', async (_name, bytes, status) => {
    const frame = await serve(ROUTES)
    const result = await frame.ask(bytes)
    expect(result.status).toBe(status)
    expect(limitHeaders(result)).toEqual([undefined, undefined, undefined])
  })

  test('count a request that times out with 408 once', async () => {
    const limits = { headersTimeoutMs: 50, requestTimeoutMs: 50, timeoutCheckMs: 20 }
    const frame = await serve(ROUTES, { access: limited(10), now: () => NOW, limits })
    const headless = await frame.client()
    headless.send('GET / HTTP/1.1\r\n')
    expect(limitHeaders(await headless.answer())).toEqual(['10', '9', RESET])
    const bodiless = await frame.client()
    bodiless.send(request('POST', '/echo', { 'Content-Length': '9' }))
    // The request is counted when it begins, not again when it times out.
    expect(limitHeaders(await bodiless.answer())).toEqual(['10', '8', RESET])
    expect(limitHeaders(await frame.ask(THING))).toEqual(['10', '7', RESET])
  })
})

test('a request that is complete only after its 408 is neither run nor counted', async () => {
  const limits = { headersTimeoutMs: 50, requestTimeoutMs: 50, timeoutCheckMs: 20 }
  const frame = await serve(ROUTES, { access: limited(10), now: () => NOW, limits })
  const late = await frame.client()
  late.send('DELETE /thing HTTP/1.1\r\n')
  expect((await late.answer()).status).toBe(408)
  late.send('Host: test\r\n\r\n')
  await late.closed()
  expect(limitHeaders(await frame.ask(THING))).toEqual(['10', '8', RESET])
  expect(frame.done.filter(({ method }) => method === 'DELETE')).toEqual([])
})

test('a 429 has the form of seed 001 and a Retry-After until the end of the window', async () => {
  const frame = await serveLimited(1)
  await frame.ask(THING)
  frame.at(15_000)
  const result = await frame.ask(request('GET', '/thing', { 'X-Request-Id': 'req_l' }))
  expect(result.headers['retry-after']).toBe('45')
  expect(JSON.parse(result.body)).toEqual({
    error: {
      code: 'rate_limited',
      message: 'Rate limit exceeded. Try again in 45 seconds.',
      retryable: true,
      details: { limit: 1, window_seconds: 60, retry_after_seconds: 45 },
      request_id: 'req_l',
    },
  })
})

test('a request is accepted again when the window of the last 429 ends', async () => {
  const frame = await serveLimited(1)
  await frame.ask(THING)
  frame.at(59_999)
  const late = await frame.ask(THING)
  expect(late.status).toBe(429)
  expect(late.headers['retry-after']).toBe('1')
  expect(errorOf(late).message).toBe('Rate limit exceeded. Try again in 1 second.')
  frame.at(60_000)
  expect((await frame.ask(THING)).status).toBe(200)
})

test('each key name has its own window, and requests without a valid key share that of their address', async () => {
  const frame = await serveLimited(2, true)
  const with_ = (key: string) => request('GET', '/thing', { Authorization: `Bearer ${key}` })
  const ask = async (bytes: Buffer) => {
    const { status, headers } = await frame.ask(bytes)
    return [status, headers['x-ratelimit-remaining']]
  }
  expect(await ask(with_(a.key))).toEqual([200, '1'])
  expect(await ask(with_(a.key))).toEqual([200, '0'])
  expect(await ask(with_(a.key))).toEqual([429, '0'])
  expect(await ask(with_(b.key))).toEqual([200, '1'])
  // Guessing keys counts against the address, not against the owner of a key.
  expect(await ask(with_('ojs_guess'))).toEqual([401, '1'])
  expect(await ask(THING)).toEqual([401, '0'])
  expect(await ask(with_('ojs_guess'))).toEqual([429, '0'])
  expect(await ask(with_(b.key))).toEqual([200, '0'])
})

test('whoever has no key cannot try keys for nothing on the endpoints of leases', async () => {
  const frame = await serveLimited(2, true)
  for (const status of [401, 401, 429]) {
    const headers = { Authorization: 'Bearer ojs_guess' }
    const guess = request('POST', '/ojs/v1/workers/ack', headers, '{}')
    expect((await frame.ask(guess)).status).toBe(status)
  }
})

test('a key that is named like an address does not share the window of that address', async () => {
  const named = newApiKey('127.0.0.1', 'admin')
  const access = { ...limited(1), apiKeys: parseApiKeys(named.entry, []) }
  const frame = await serve(ROUTES, { access, now: () => NOW })
  expect((await frame.ask(THING)).status).toBe(401)
  expect((await frame.ask(THING)).status).toBe(429)
  const own = request('GET', '/thing', { Authorization: `Bearer ${named.key}` })
  expect((await frame.ask(own)).status).toBe(200)
})

test('GET /ojs/v1/health is neither counted nor refused by the limit', async () => {
  const frame = await serveLimited(2)
  const probe = (path: string) => frame.ask(request('GET', path))
  expect(limitHeaders(await probe('/ojs/v1/health'))).toEqual(['2', '2', RESET])
  for (let i = 0; i < 3; i++) await frame.ask(THING)
  const full = await probe('/ojs/v1/health?verbose=1')
  expect(full.status).toBe(200)
  expect(limitHeaders(full)).toEqual(['2', '0', RESET])
  expect((await probe('/ojs/v1/healthy')).status).toBe(429)
})

test('a PUSH beyond the limit is refused with 429 before its body is read', async () => {
  const door = await openDoor(10_000, { access: limited(1) })
  await door.ask(request('GET', '/ojs/manifest'))
  const client = await door.client()
  client.send(request('POST', '/ojs/v1/jobs', { 'Content-Length': '1000000' }))
  const result = await client.answer()
  expect(result.status).toBe(429)
  expect(result.headers['connection']).toBe('close')
  expect(door.done.map(({ status }) => status)).toEqual([200, 429])
})
