import { getEventListeners } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type Fetch,
  HttpTransport,
  OJSBackendError,
  OJSConflictError,
  OJSError,
  OJSRateLimitError,
  OJSTransportError,
} from '../../../src/sdk/index.ts'

const MEDIA_TYPE = 'application/openjobspec+json'
const BACKEND_ERROR = { code: 'backend_error', message: 'RabbitMQ is away.', retryable: true }

describe('HttpTransport over a real socket', () => {
  let server: Server
  let url: string
  let received: { method?: string; url?: string; headers: IncomingMessage['headers']; body: string }
  let respond: (response: ServerResponse) => void

  beforeEach(async () => {
    respond = (response) => response.end('{"ok":true}')
    server = createServer(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      const { method, url: target, headers } = request
      received = { ...(method && { method }), ...(target && { url: target }), headers, body }
      respond(response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterEach(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  test('sends JSON below /ojs/v1 with the media type of OJS', async () => {
    respond = (response) => response.writeHead(201, { 'X-Request-Id': 'r1' }).end('{"job":1}')
    const answer = await new HttpTransport({ url }).request({
      method: 'POST',
      path: '/jobs',
      body: { type: 'ü' },
    })
    expect(answer).toMatchObject({ status: 201, body: { job: 1 } })
    expect(answer.headers?.['x-request-id']).toBe('r1')
    expect(received).toMatchObject({
      method: 'POST',
      url: '/ojs/v1/jobs',
      headers: { 'content-type': MEDIA_TYPE, accept: MEDIA_TYPE },
      body: '{"type":"ü"}',
    })
  })

  test('sends no content type without a body', async () => {
    await new HttpTransport({ url }).request({ method: 'GET', path: '/queues?limit=1' })
    expect(received.url).toBe('/ojs/v1/queues?limit=1')
    expect(received.headers).not.toHaveProperty('content-type')
    expect(received.body).toBe('')
  })

  test.each([
    ['/', '/jobs', '/ojs/v1/jobs'],
    ['/ojs/v1/', '/jobs', '/ojs/v1/jobs'],
    ['/tenant', '/jobs', '/tenant/ojs/v1/jobs'],
    ['/tenant/', '/ojs/manifest', '/tenant/ojs/manifest'],
  ])('joins a URL that ends in %j with path %j to %s', async (suffix, path, expected) => {
    await new HttpTransport({ url: url + suffix }).request({ method: 'GET', path })
    expect(received.url).toBe(expected)
  })

  test('sends a bare token as Bearer, and a value with a scheme unchanged', async () => {
    await new HttpTransport({ url, auth: 't0ken' }).request({ method: 'GET', path: '/health' })
    expect(received.headers.authorization).toBe('Bearer t0ken')
    await new HttpTransport({ url, auth: 'ApiKey k' }).request({ method: 'GET', path: '/health' })
    expect(received.headers.authorization).toBe('ApiKey k')
  })

  test('sends no Authorization header for an empty token', async () => {
    await new HttpTransport({ url, auth: '' }).request({ method: 'GET', path: '/health' })
    expect(received.headers).not.toHaveProperty('authorization')
  })

  test.each([Number.POSITIVE_INFINITY, 1e300])(
    'takes a timeout of %d as no time limit',
    async (timeout) => {
      const transport = new HttpTransport({ url, timeout, retry: false })
      // Passed to `setTimeout` as it is, such a value would fire after 1 ms.
      respond = (response) => setTimeout(() => response.end('{"ok":true}'), 50)
      expect(await transport.request({ method: 'GET', path: '/health' })).toMatchObject({
        status: 200,
      })
      const of = { method: 'GET', path: '/health', timeout }
      const other = new HttpTransport({ url, timeout: 1, retry: false })
      expect(await other.request(of)).toMatchObject({ status: 200 })
    },
  )

  test('sends credentials of the URL as basic authentication, unless auth is given', async () => {
    const withUser = url.replace('http://', 'http://jürgen:p%40ss@')
    await new HttpTransport({ url: withUser }).request({ method: 'GET', path: '/health' })
    const expected = Buffer.from('jürgen:p@ss').toString('base64')
    expect(received.headers.authorization).toBe(`Basic ${expected}`)
    // The `auth` option takes precedence over the URL.
    const both = new HttpTransport({ url: withUser, auth: 'token' })
    await both.request({ method: 'GET', path: '/health' })
    expect(received.headers.authorization).toBe('Bearer token')
  })

  test('prefers headers of the request to those of the transport, and both to its defaults', async () => {
    const transport = new HttpTransport({ url, headers: { 'X-Tenant': 'a', 'X-Other': 'b' } })
    const headers = { 'x-tenant': 'c', traceparent: '00-1' }
    await transport.request({ method: 'GET', path: '/health', headers })
    expect(received.headers).toMatchObject({
      'x-tenant': 'c',
      'x-other': 'b',
      traceparent: '00-1',
      accept: MEDIA_TYPE,
    })
  })

  test("rejects with the OJSError of the server's answer, with all its members", async () => {
    respond = (response) =>
      response
        .writeHead(429, { 'Retry-After': '7', 'X-Request-Id': 'from-header' })
        .end(
          '{"error":{"code":"rate_limited","message":"Slowly.","retryable":true,"details":{"limit":3},"request_id":"req_1"}}',
        )
    const error = await rejection(
      new HttpTransport({ url, retry: false }).request({ method: 'GET', path: '/jobs/1' }),
    )
    expect(error).toBeInstanceOf(OJSRateLimitError)
    expect(error).toMatchObject({
      name: 'OJSRateLimitError',
      code: 'rate_limited',
      message: 'Slowly.',
      retryable: true,
      details: { limit: 3 },
      status: 429,
      requestId: 'req_1',
      retryAfter: 7,
      attempts: 1,
    })
  })

  test.each([
    ['HTML of a proxy', 502, '<html>Bad Gateway</html>'],
    ['JSON that is no OJS error', 404, '{"message":"no such page"}'],
    ['a redirect', 302, ''],
    ['an array where an object belongs', 200, '[]'],
    ['no JSON although 200', 200, 'hello'],
  ])(
    'rejects with OJSTransportError, which is no OJSError, for %s',
    async (_what, status, body) => {
      respond = (response) => response.writeHead(status, { Location: '/elsewhere' }).end(body)
      const error = await rejection(
        new HttpTransport({ url, retry: false }).request({ method: 'GET', path: '/jobs/1' }),
      )
      expect(error).toBeInstanceOf(OJSTransportError)
      expect(error).not.toBeInstanceOf(OJSError)
      expect(error).toMatchObject({ kind: 'protocol', status })
    },
  )

  test('returns an empty body for 204', async () => {
    respond = (response) => response.writeHead(204).end()
    const answer = await new HttpTransport({ url }).request({ method: 'DELETE', path: '/x' })
    expect(answer).toMatchObject({ status: 204, body: {} })
  })

  test('returns a 200 whose body has the error of a job as an answer', async () => {
    const body = {
      job_id: '1',
      state: 'retryable',
      error: { code: 'boom', message: 'it went off' },
    }
    respond = (response) => response.end(JSON.stringify(body))
    const request = { method: 'POST', path: '/workers/nack', body: {} }
    expect(await new HttpTransport({ url }).request(request)).toMatchObject({ status: 200, body })
  })

  test('returns a status listed in accept as an answer, but rejects if its body is an OJS error', async () => {
    const transport = new HttpTransport({ url, retry: false })
    respond = (response) => response.writeHead(503).end('{"status":"degraded"}')
    const health = { method: 'GET', path: '/health', accept: [503] }
    expect(await transport.request(health)).toMatchObject({
      status: 503,
      body: { status: 'degraded' },
    })
    respond = (response) =>
      response.writeHead(503).end(JSON.stringify({ error: { ...BACKEND_ERROR } }))
    expect(await rejection(transport.request(health))).toBeInstanceOf(OJSBackendError)
  })

  test('rejects with kind network and the reason if the connection is refused', async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    const error = await rejection(
      new HttpTransport({ url, retry: false }).request({ method: 'POST', path: '/jobs', body: {} }),
    )
    expect(error).toMatchObject({ name: 'OJSTransportError', kind: 'network', attempts: 1 })
    expect(String(error)).toContain('ECONNREFUSED')
    expect((error as Error).cause).toBeInstanceOf(Error)
  })

  test('rejects with kind timeout if no answer comes in time', async () => {
    respond = () => {}
    const transport = new HttpTransport({ url, retry: false, timeout: 60_000 })
    const error = await rejection(
      transport.request({ method: 'GET', path: '/jobs/1', timeout: 20 }),
    )
    expect(error).toMatchObject({ name: 'OJSTransportError', kind: 'timeout' })
    expect(String(error)).toContain('20 ms')
  })

  test('rejects with kind timeout if the answer stops half-way', async () => {
    respond = (response) => response.writeHead(200).write('{"job":')
    const transport = new HttpTransport({ url, retry: false, timeout: 50 })
    expect(await rejection(transport.request({ method: 'GET', path: '/jobs/1' }))).toMatchObject({
      kind: 'timeout',
    })
  })

  test("rejects with kind aborted and the reason when the caller's signal fires", async () => {
    const controller = new AbortController()
    respond = () => controller.abort(new Error('enough'))
    const error = await rejection(
      new HttpTransport({ url }).request({
        method: 'GET',
        path: '/jobs/1',
        signal: controller.signal,
      }),
    )
    expect(error).toMatchObject({ kind: 'aborted', attempts: 1, cause: { message: 'enough' } })
  })

  test('sends nothing if the signal has already fired', async () => {
    let requests = 0
    respond = (response) => {
      requests += 1
      response.end('{}')
    }
    const request = { method: 'GET', path: '/jobs/1', signal: AbortSignal.abort() }
    const error = await rejection(new HttpTransport({ url }).request(request))
    expect(error).toMatchObject({ kind: 'aborted', attempts: 0 })
    expect(requests).toBe(0)
  })

  test('removes its listener from the signal after the request', async () => {
    const { signal } = new AbortController()
    await new HttpTransport({ url }).request({ method: 'GET', path: '/jobs/1', signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('has one listener for 20 requests with the same signal, which aborts them all', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const all = new HttpTransport({ url })
    let open = 0
    let listeners = 0
    respond = () => {
      open += 1
      if (open < 20) return
      listeners = getEventListeners(signal, 'abort').length
      controller.abort()
    }
    const request = { method: 'GET', path: '/jobs/1', signal }
    const errors = await Promise.all(
      Array.from({ length: 20 }, () => rejection(all.request(request))),
    )
    for (const error of errors) expect(error).toMatchObject({ kind: 'aborted', attempts: 1 })
    expect(listeners).toBe(1)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('HttpTransport keeps credentials out of errors', () => {
  const SECRET = 's3cr3t'

  test.each([
    ['a URL of another protocol', `ftp://user:${SECRET}@host`],
    ['a text that is no URL', `http//user:${SECRET}@host`],
    ['an AMQP URL', `amqp://user:${SECRET}@host`],
  ])('for %s', (_what, url) => {
    const thrown = thrownBy(() => new HttpTransport({ url }))
    expect(thrown).toBeInstanceOf(TypeError)
    expect(inspect(thrown, { depth: 10 })).not.toContain(SECRET)
  })

  test('for an auth value that no header may hold', () => {
    const thrown = thrownBy(() => new HttpTransport({ url: 'http://h', auth: `${SECRET}\n` }))
    expect(inspect(thrown)).toContain('authorization')
    expect(inspect(thrown)).not.toContain(SECRET)
  })

  test('for a request that fails', async () => {
    const transport = new HttpTransport({ url: `http://user:${SECRET}@127.0.0.1:1`, retry: false })
    const error = await rejection(transport.request({ method: 'GET', path: '/health' }))
    expect(inspect(error, { depth: 10 })).toContain('http://127.0.0.1:1')
    expect(inspect(error, { depth: 10 })).not.toContain(SECRET)
    expect(inspect(transport, { depth: 10, showHidden: true })).not.toContain(SECRET)
  })
})

describe('HttpTransport repeating requests', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  const temporary = { status: 503, text: JSON.stringify({ error: BACKEND_ERROR }) }
  const ok = { status: 200, text: '{"fine":true}' }

  test('tries a GET five times, with waits that double from about 100 ms', async () => {
    const { transport, sentAt } = scripted(Array(9).fill(temporary))
    const error = await settled(rejection(transport.request({ method: 'GET', path: '/jobs/1' })))
    expect(error).toBeInstanceOf(OJSBackendError)
    expect(error).toMatchObject({ attempts: 5, retryable: true })
    expect(sentAt).toHaveLength(5)
    const waits = sentAt.slice(1).map((at, i) => at - (sentAt[i] ?? 0))
    for (const [i, wait] of waits.entries()) {
      expect(wait).toBeGreaterThanOrEqual(50 * 2 ** i)
      expect(wait).toBeLessThanOrEqual(100 * 2 ** i + 1)
    }
  })

  test.each([
    ['of its own backoff', temporary],
    ['of Retry-After', { ...temporary, headers: { 'retry-after': '2' } }],
  ])('adds jitter to the waits %s', async (_what, refusal) => {
    const spans = new Set<number>()
    for (let i = 0; i < 10; i += 1) {
      const { transport, sentAt } = scripted(Array(9).fill(refusal))
      await settled(rejection(transport.request({ method: 'GET', path: '/jobs/1' })))
      spans.add((sentAt.at(-1) ?? 0) - (sentAt[0] ?? 0))
    }
    expect(spans.size).toBeGreaterThan(1)
  })

  test.each([
    ['sends a POST once', { method: 'POST', path: '/workflows', body: {} }, 1],
    ['sends a DELETE once', { method: 'DELETE', path: '/jobs/1' }, 1],
    [
      'repeats a POST marked as idempotent',
      { method: 'POST', path: '/jobs', body: {}, idempotent: true },
      2,
    ],
    ['repeats a GET', { method: 'GET', path: '/jobs/1' }, 2],
    [
      'sends a GET marked as not idempotent once',
      { method: 'GET', path: '/jobs/1', idempotent: false },
      1,
    ],
  ])('%s after a 503, a lost connection or an error of a proxy', async (_what, request, tries) => {
    const ofProxy = [502, 503, 504].map((status) => ({ status, text: '' }))
    for (const failure of [temporary, new TypeError('fetch failed'), ...ofProxy]) {
      const { transport, sentAt } = scripted([failure, ok])
      await settled(transport.request(request).catch(() => {}))
      expect(sentAt).toHaveLength(tries)
    }
  })

  test('repeats any request after a 429, because the server has not processed it', async () => {
    const limited = { code: 'rate_limited', message: 'Slowly.', retryable: true }
    const { transport, sentAt } = scripted([
      { status: 429, text: JSON.stringify({ error: limited }), headers: { 'retry-after': '2' } },
      { status: 429, text: 'Too many requests', headers: { 'Retry-After': '3' } },
      ok,
    ])
    const answer = await settled(
      transport.request({ method: 'POST', path: '/workflows', body: {} }),
    )
    expect(answer).toMatchObject({ status: 200, body: { fine: true } })
    const [first = 0, second = 0, third = 0] = sentAt
    expect(second - first).toBeGreaterThanOrEqual(2_000)
    expect(second - first).toBeLessThan(2_200)
    expect(third - second).toBeGreaterThanOrEqual(3_000)
  })

  test('waits until the date of Retry-After', async () => {
    const date = new Date(Date.now() + 4_000).toUTCString()
    const { transport, sentAt } = scripted([{ ...temporary, headers: { 'retry-after': date } }, ok])
    await settled(transport.request({ method: 'GET', path: '/jobs/1' }))
    expect((sentAt[1] ?? 0) - (sentAt[0] ?? 0)).toBeGreaterThanOrEqual(3_000)
  })

  test('rejects without a repeat if Retry-After is more than 30 s', async () => {
    const askFor = (seconds: number) =>
      scripted([{ ...temporary, headers: { 'retry-after': String(seconds) } }, ok])
    const { transport, sentAt } = askFor(31)
    const error = await settled(rejection(transport.request({ method: 'GET', path: '/jobs/1' })))
    expect(error).toMatchObject({ retryAfter: 31 })
    expect(sentAt).toHaveLength(1)
    const atLimit = askFor(30)
    await settled(atLimit.transport.request({ method: 'GET', path: '/jobs/1' }))
    expect(atLimit.sentAt).toHaveLength(2)
  })

  test.each([
    ['unknown code', { code: 'x_busy', message: '…', retryable: true }, 503],
    ['not retryable', { ...BACKEND_ERROR, retryable: false }, 503],
    [
      'a rate limit that is not retryable',
      { code: 'rate_limited', message: '…', retryable: false },
      429,
    ],
    ['paused queue', { code: 'queue_paused', message: '…', retryable: true }, 422],
    ['validation', { code: 'invalid_request', message: '…', retryable: false }, 400],
    ['conflict', { code: 'invalid_request', message: '…', retryable: false }, 409],
  ])('sends a request once if the error is: %s', async (_what, error, status) => {
    const { transport, sentAt } = scripted([{ status, text: JSON.stringify({ error }) }, ok])
    await settled(rejection(transport.request({ method: 'GET', path: '/jobs/1' })))
    expect(sentAt).toHaveLength(1)
  })

  test('makes as many tries as retry.maxAttempts says, and one with retry: false', async () => {
    const limited = scripted(Array(9).fill(temporary), { maxAttempts: 2, initialDelay: 1_000 })
    await settled(rejection(limited.transport.request({ method: 'GET', path: '/' })))
    expect(limited.sentAt).toHaveLength(2)
    const off = scripted(Array(9).fill(temporary), false)
    await settled(rejection(off.transport.request({ method: 'GET', path: '/' })))
    expect(off.sentAt).toHaveLength(1)
    expect(() => scripted([], { maxDelay: Number.NaN })).toThrow(/retry\.maxDelay/)
  })

  test('stops waiting between two tries when the signal fires', async () => {
    const controller = new AbortController()
    const { transport, sentAt } = scripted(Array(9).fill(temporary))
    const rejected = rejection(
      transport.request({ method: 'GET', path: '/jobs/1', signal: controller.signal }),
    )
    await vi.advanceTimersByTimeAsync(10)
    controller.abort()
    expect(await rejected).toMatchObject({ kind: 'aborted', attempts: 1 })
    expect(sentAt).toHaveLength(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('rejects with TypeError, and sends nothing, if JSON cannot hold the body', async () => {
    const { transport, sentAt } = scripted([ok])
    const error = await rejection(transport.request({ method: 'POST', path: '/', body: { a: 1n } }))
    expect(error).toBeInstanceOf(TypeError)
    expect(sentAt).toHaveLength(0)
  })

  test.each([
    ['a name with a space', { 'x tenant': 'a' }],
    ['an empty name', { '': 'a' }],
    ['a line break', { 'x-tenant': 'a\nb' }],
    ['a value that is no text', { 'x-tenant': 1 as unknown as string }],
  ])(
    'rejects with TypeError, and sends nothing, for an invalid header: %s',
    async (_what, headers) => {
      const { transport, sentAt } = scripted([ok])
      const error = await rejection(transport.request({ method: 'GET', path: '/', headers }))
      expect(error).toBeInstanceOf(TypeError)
      expect(sentAt).toHaveLength(0)
      expect(() => new HttpTransport({ url: 'http://h', headers })).toThrow(TypeError)
    },
  )

  test.each([-1, Number.NaN, '5' as unknown as number, null as unknown as number])(
    'rejects with TypeError, and sends nothing, for a timeout of %j',
    async (timeout) => {
      const { transport, sentAt } = scripted([ok])
      const error = await rejection(transport.request({ method: 'GET', path: '/', timeout }))
      expect(error).toBeInstanceOf(TypeError)
      expect(sentAt).toHaveLength(0)
      expect(() => new HttpTransport({ url: 'http://h', timeout })).toThrow(TypeError)
    },
  )

  test('rejects a 409 with OJSConflictError and the current state', async () => {
    const error = {
      code: 'invalid_request',
      message: 'Cannot cancel.',
      retryable: false,
      details: { current_state: 'completed' },
    }
    const { transport } = scripted([{ status: 409, text: JSON.stringify({ error }) }])
    const thrown = await rejection(transport.request({ method: 'DELETE', path: '/jobs/1' }))
    expect(thrown).toBeInstanceOf(OJSConflictError)
    expect(thrown).toMatchObject({ currentState: 'completed' })
  })
})

type Scripted = Error | { status: number; text: string; headers?: Record<string, string> }

/** A transport whose `fetch` answers from a list, and the times of its calls. */
function scripted(
  script: Scripted[],
  retry?: ConstructorParameters<typeof HttpTransport>[0]['retry'],
) {
  const sentAt: number[] = []
  const fetch: Fetch = async () => {
    const answer = script[sentAt.length]
    sentAt.push(Date.now())
    if (!answer) throw new Error('called too often')
    if (answer instanceof Error) throw answer
    const { status, text, headers } = answer
    return { status, headers: new Headers(headers), text: async () => text }
  }
  const transport = new HttpTransport({
    url: 'http://unused',
    fetch,
    ...(retry !== undefined && { retry }),
  })
  return { transport, sentAt }
}

/** Runs all fake timers, then awaits the promise. */
async function settled<T>(promise: Promise<T>): Promise<T> {
  await vi.runAllTimersAsync()
  return promise
}

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it did not reject')
}

function thrownBy(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  throw new Error('it did not throw')
}
