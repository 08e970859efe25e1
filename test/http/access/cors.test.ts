import { describe, expect, test } from 'vitest'
import { newApiKey, parseApiKeys } from '../../../src/http/access/api-keys.ts'
import { parseOrigins } from '../../../src/http/access/cors.ts'
import { readJson, readOptionalJson } from '../../../src/http/message/body.ts'
import { answer, answerEmpty } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import { errorOf, OPEN, serve } from '../frame.ts'
import { type RawAnswer, request } from '../raw-client.ts'

const DASH = 'https://dash.example.com'
const LOCAL = 'http://localhost:5173'
const { key, entry } = newApiKey('ops', 'admin')
const apiKeys = parseApiKeys(entry, [])
const LISTED = { ...OPEN, corsOrigins: [DASH, LOCAL] }
const GUARDED = { ...LISTED, apiKeys }

/** Routes, and the methods with which their handlers were called. */
function recordingRoutes() {
  const reached: string[] = []
  const routes: Route[] = [
    {
      method: 'GET',
      path: '/thing',
      handle(_request, response) {
        reached.push('GET')
        answer(response, 200, '{}')
      },
    },
    {
      method: 'DELETE',
      path: '/thing',
      handle(_request, response) {
        reached.push('DELETE')
        answerEmpty(response)
      },
    },
    {
      method: 'POST',
      path: '/thing',
      async handle(req, res) {
        await readOptionalJson(req, res, 1_000)
        reached.push('POST')
        answer(res, 201, '{}')
      },
    },
    {
      method: 'POST',
      path: '/body',
      async handle(req, res) {
        answer(res, 200, JSON.stringify(await readJson(req, res, 1_000)))
      },
    },
  ]
  return { reached, routes }
}

const preflight = (origin: string, path = '/thing', headers: Record<string, string> = {}) =>
  request('OPTIONS', path, {
    Origin: origin,
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'authorization,content-type',
    ...headers,
  })

const corsHeaders = ({ headers }: RawAnswer) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')))

const EXPOSED =
  'X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, OJS-Version, Retry-After, X-OJS-Progress'

describe('a CORS preflight', () => {
  // Seed 001 §20.2 verbatim, with the other headers that requests may have here.
  const ANSWER = {
    'access-control-allow-origin': DASH,
    'access-control-allow-methods': 'GET, POST, PUT, DELETE, OPTIONS',
    'access-control-allow-headers':
      'Content-Type, Accept, Authorization, X-Request-Id, OJS-Version, Idempotency-Key, traceparent, tracestate',
    'access-control-expose-headers': EXPOSED,
    'access-control-max-age': '86400',
  }

  test.each([
    ['for an endpoint', '/thing'],
    ['for an unknown path', '/nowhere'],
  ])(
    '%s is answered 204 with the headers of seed 001 §20.2, without a key',
    async (_name, path) => {
      const { routes, reached } = recordingRoutes()
      const frame = await serve(routes, { access: GUARDED })
      const result = await frame.ask(preflight(DASH, path))
      expect(result).toMatchObject({ status: 204, body: '' })
      expect(corsHeaders(result)).toEqual(ANSWER)
      expect(result.headers).toMatchObject({ vary: 'Origin', 'ojs-version': '1.0' })
      expect(result.headers['x-request-id']).toMatch(/^req_/)
      expect(reached).toEqual([])
    },
  )

  test('is answered whatever its OJS-Version and Host', async () => {
    const frame = await serve(recordingRoutes().routes, { access: GUARDED })
    const headers = { Host: 'evil.example', 'OJS-Version': '9' }
    expect((await frame.ask(preflight(LOCAL, '/thing', headers))).status).toBe(204)
  })

  test.each(['https://dash.example.com.evil', 'http://dash.example.com', 'null', 'https://x'])(
    'from the unlisted origin %s is not allowed',
    async (origin) => {
      const frame = await serve(recordingRoutes().routes, { access: GUARDED })
      const result = await frame.ask(preflight(origin))
      expect(result.headers).not.toHaveProperty('access-control-allow-origin')
    },
  )

  test.each([
    ['from an unlisted origin', preflight('https://evil.example'), 204, true],
    [
      'from an unlisted origin for an unknown path',
      preflight('https://evil.example', '/nowhere'),
      404,
      false,
    ],
    ['without a requested method', request('OPTIONS', '/thing', { Origin: DASH }), 204, true],
  ])('%s is answered as a plain OPTIONS', async (_name, bytes, status, isAllowed) => {
    const frame = await serve(recordingRoutes().routes, { access: GUARDED })
    const result = await frame.ask(bytes)
    expect(result.status).toBe(status)
    expect('allow' in result.headers).toBe(isAllowed)
  })

  test('gets no CORS headers without OJS_CORS_ORIGINS', async () => {
    const frame = await serve(recordingRoutes().routes, { access: { ...OPEN, apiKeys } })
    const result = await frame.ask(preflight(DASH))
    expect(corsHeaders(result)).toEqual({})
    expect(result.headers).not.toHaveProperty('vary')
  })
})

describe('an answer to a page of a listed origin', () => {
  const shared = {
    'access-control-allow-origin': DASH,
    'access-control-expose-headers': EXPOSED,
  }
  const auth = { Origin: DASH, Authorization: `Bearer ${key}` }
  const rows: [name: string, bytes: Buffer, status: number][] = [
    ['a result', request('GET', '/thing', auth), 200],
    ['an empty result', request('DELETE', '/thing', auth), 204],
    ['401', request('GET', '/thing', { Origin: DASH }), 401],
    ['404', request('GET', '/nowhere', auth), 404],
    ['405', request('PUT', '/thing', auth), 405],
    ['413', request('POST', '/body', auth, 'x'.repeat(2_000)), 413],
    ['422', request('GET', '/thing', { ...auth, 'OJS-Version': '9' }), 422],
    ['no Host', request('GET', '/thing', { ...auth, Host: undefined }), 400],
  ]
  test.each(rows)('has CORS headers: %s', async (_name, bytes, status) => {
    const frame = await serve(recordingRoutes().routes, { access: GUARDED })
    const result = await frame.ask(bytes)
    expect(result.status).toBe(status)
    expect(corsHeaders(result)).toEqual(shared)
    expect(result.headers['vary']).toBe('Origin')
  })

  test('has CORS headers: 408 for a body that does not come', async () => {
    // A timeout before the headers are read cannot know the origin; so the headers get the longest time.
    const limits = { requestTimeoutMs: 2_000, headersTimeoutMs: 2_000, timeoutCheckMs: 20 }
    const frame = await serve(recordingRoutes().routes, { access: LISTED, limits })
    const client = await frame.client()
    client.send(request('POST', '/body', { Origin: DASH, 'Content-Length': '10' }))
    const result = await client.answer()
    expect(result.status).toBe(408)
    expect(corsHeaders(result)).toEqual(shared)
  })

  test('has CORS headers: 429', async () => {
    const rateLimit = { limit: 1, windowMs: 60_000 }
    const frame = await serve(recordingRoutes().routes, { access: { ...LISTED, rateLimit } })
    await frame.ask(request('GET', '/thing'))
    const result = await frame.ask(request('GET', '/thing', { Origin: DASH }))
    expect(result.status).toBe(429)
    expect(corsHeaders(result)).toEqual(shared)
  })

  test('has Vary: Origin also for a request without an Origin, so that caches keep them apart', async () => {
    const frame = await serve(recordingRoutes().routes, { access: LISTED })
    const result = await frame.ask(request('GET', '/thing'))
    expect(result.headers['vary']).toBe('Origin')
    expect(result.headers).not.toHaveProperty('access-control-allow-origin')
  })
})

describe('a POST or DELETE from a web page', () => {
  type Row = [
    name: string,
    headers: Record<string, string>,
    access: typeof OPEN,
    isReached: boolean,
  ]
  const rows: Row[] = [
    ['no Origin, as from a program', {}, OPEN, true],
    ['a listed origin', { Origin: DASH }, LISTED, true],
    ['an unlisted origin', { Origin: 'https://evil.example' }, LISTED, false],
    ['an origin without an allowlist', { Origin: 'https://evil.example' }, OPEN, false],
    ['null, as from a file or a sandbox', { Origin: 'null' }, OPEN, false],
    ['a text that is no origin', { Origin: 'x y' }, OPEN, false],
    ['two origins', { Origin: `${DASH}, https://evil.example` }, LISTED, false],
    [
      'the same IPv4 address as the Host',
      { Origin: 'http://127.0.0.1:8080', Host: '127.0.0.1:8080' },
      OPEN,
      true,
    ],
    ['the same IPv6 address as the Host', { Origin: 'http://[::1]:80', Host: '[::1]' }, OPEN, true],
    [
      'localhost, as the Host',
      { Origin: 'http://localhost:8080', Host: 'LOCALHOST:8080' },
      OPEN,
      true,
    ],
    [
      'another port than the Host',
      { Origin: 'http://localhost:1', Host: 'localhost:2' },
      OPEN,
      false,
    ],
    // DNS rebinding: the page's own name, which its owner has pointed at this machine.
    [
      'the same name as the Host, without TLS or key',
      { Origin: 'http://a.example', Host: 'a.example' },
      OPEN,
      false,
    ],
    [
      'the same name as the Host, with a key',
      { Origin: 'http://a.example', Host: 'a.example', Authorization: `Bearer ${key}` },
      GUARDED,
      true,
    ],
  ]
  test.each(rows)('with the Origin: %s', async (_name, headers, access, isReached) => {
    const { routes, reached } = recordingRoutes()
    const frame = await serve(routes, { access })
    for (const method of ['POST', 'DELETE'] as const) {
      const result = await frame.ask(request(method, '/thing', headers))
      if (isReached) expect(result.status).toBeLessThan(300)
      else refusedAsForeign(result)
    }
    expect(reached).toEqual(isReached ? ['POST', 'DELETE'] : [])
  })

  test.each(['text/plain', 'application/x-www-form-urlencoded', undefined])(
    'is refused with the content type %s too, for which browsers send no preflight',
    async (type) => {
      const { routes, reached } = recordingRoutes()
      const frame = await serve(routes)
      const headers = { Origin: 'https://evil.example', 'Content-Type': type }
      refusedAsForeign(await frame.ask(request('POST', '/thing', headers, '{}')))
      expect(reached).toEqual([])
    },
  )

  test.each(['GET', 'HEAD', 'OPTIONS'])(
    'is refused, but %s is not: without CORS headers the page cannot read the answer',
    async (method) => {
      const frame = await serve(recordingRoutes().routes)
      const result = await frame.ask(request(method, '/thing', { Origin: 'https://evil.example' }))
      expect(result.status).toBeLessThan(300)
      expect(result.headers).not.toHaveProperty('access-control-allow-origin')
    },
  )

  function refusedAsForeign(result: RawAnswer): void {
    expect(result.status).toBe(403)
    expect(errorOf(result)).toMatchObject({
      code: 'x_forbidden',
      details: { reason: 'origin', field: 'Origin' },
    })
  }
})

describe('OJS_CORS_ORIGINS', () => {
  const parse = (text: string) => {
    const mistakes: string[] = []
    return { origins: parseOrigins(text, mistakes), mistakes }
  }

  test('is parsed as a list of exact origins', () => {
    expect(parse('')).toEqual({ origins: [], mistakes: [] })
    expect(parse(`${DASH}, ${LOCAL}`)).toEqual({ origins: [DASH, LOCAL], mistakes: [] })
  })

  test.each([
    '*',
    'dash.example.com',
    'https://dash.example.com/',
    'https://dash.example.com/path',
    'https://Dash.example.com',
    'https://dash.example.com:443',
    'https://*.example.com',
    'ftp://dash.example.com',
    'null',
  ])('is refused: %s', (text) => {
    expect(parse(text).mistakes).toHaveLength(1)
  })

  test('is refused without showing a password', () => {
    const { mistakes } = parse('https://user:secret@dash.example.com')
    expect(mistakes).toEqual([expect.not.stringContaining('secret')])
  })
})
