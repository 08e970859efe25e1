import { describe, expect, test } from 'vitest'
import type { AccessConfig } from '../../src/http/access-config.ts'
import { answer, answerEmpty } from '../../src/http/answer.ts'
import { newApiKey, parseApiKeys } from '../../src/http/api-keys.ts'
import { readJson, readOptionalJson } from '../../src/http/body.ts'
import { parseOrigins } from '../../src/http/origins.ts'
import type { Route } from '../../src/http/route.ts'
import { errorOf, serve } from './frame.ts'
import { type RawAnswer, request } from './raw-client.ts'

const DASH = 'https://dash.example.com'
const LOCAL = 'http://localhost:5173'
const { key, entry } = newApiKey('ops', 'admin')
const apiKeys = parseApiKeys(entry, [])
const OPEN: Omit<AccessConfig, 'tls'> = { apiKeys: [], corsOrigins: [], rateLimit: undefined }
const LISTED = { ...OPEN, corsOrigins: [DASH, LOCAL] }
const GUARDED = { ...LISTED, apiKeys }

/** What the handlers were reached with. */
function world() {
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
  'X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, OJS-Version, Retry-After'

describe('preflight', () => {
  // Seed 001 §20.2, word by word, and the other headers that a request may have here.
  const ANSWER = {
    'access-control-allow-origin': DASH,
    'access-control-allow-methods': 'GET, POST, DELETE, OPTIONS',
    'access-control-allow-headers':
      'Content-Type, Accept, Authorization, X-Request-Id, OJS-Version, Idempotency-Key, traceparent, tracestate',
    'access-control-expose-headers': EXPOSED,
    'access-control-max-age': '86400',
  }

  test.each([
    ['of an endpoint', '/thing'],
    ['of nothing', '/nowhere'],
  ])('%s: 204, the headers of the seed, and no key', async (_name, path) => {
    const { routes, reached } = world()
    const frame = await serve(routes, { access: GUARDED })
    const result = await frame.ask(preflight(DASH, path))
    expect(result).toMatchObject({ status: 204, body: '' })
    expect(corsHeaders(result)).toEqual(ANSWER)
    expect(result.headers).toMatchObject({ vary: 'Origin', 'ojs-version': '1.0' })
    expect(result.headers['x-request-id']).toMatch(/^req_/)
    expect(reached).toEqual([])
  })

  test('needs no version and no host name that is known', async () => {
    const frame = await serve(world().routes, { access: GUARDED })
    const headers = { Host: 'evil.example', 'OJS-Version': '9' }
    expect((await frame.ask(preflight(LOCAL, '/thing', headers))).status).toBe(204)
  })

  test.each(['https://dash.example.com.evil', 'http://dash.example.com', 'null', 'https://x'])(
    'of %s gets no leave',
    async (origin) => {
      const frame = await serve(world().routes, { access: GUARDED })
      const result = await frame.ask(preflight(origin))
      expect(result.headers).not.toHaveProperty('access-control-allow-origin')
    },
  )

  test.each([
    ['of a page that is not listed', preflight('https://evil.example'), 204, true],
    ['of such a page, of nothing', preflight('https://evil.example', '/nowhere'), 404, false],
    ['that names no method', request('OPTIONS', '/thing', { Origin: DASH }), 204, true],
  ])('one %s is an OPTIONS as any other', async (_name, bytes, status, isAllowed) => {
    const frame = await serve(world().routes, { access: GUARDED })
    const result = await frame.ask(bytes)
    expect(result.status).toBe(status)
    expect('allow' in result.headers).toBe(isAllowed)
  })

  test('without an allowlist there is no CORS at all', async () => {
    const frame = await serve(world().routes, { access: { ...OPEN, apiKeys } })
    const result = await frame.ask(preflight(DASH))
    expect(corsHeaders(result)).toEqual({})
    expect(result.headers).not.toHaveProperty('vary')
  })
})

describe('answers to a listed page', () => {
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
  test.each(rows)('%s', async (_name, bytes, status) => {
    const frame = await serve(world().routes, { access: GUARDED })
    const result = await frame.ask(bytes)
    expect(result.status).toBe(status)
    expect(corsHeaders(result)).toEqual(shared)
    expect(result.headers['vary']).toBe('Origin')
  })

  test('a body that does not come, or breaks', async () => {
    // Before its headers are read, nobody knows whose page it was; Node takes no more for them.
    const limits = { requestTimeoutMs: 2_000, headersTimeoutMs: 2_000, timeoutCheckMs: 20 }
    const frame = await serve(world().routes, { access: LISTED, limits })
    const client = await frame.client()
    client.send(request('POST', '/body', { Origin: DASH, 'Content-Length': '10' }))
    const result = await client.answer()
    expect(result.status).toBe(408)
    expect(corsHeaders(result)).toEqual(shared)
  })

  test('429', async () => {
    const rateLimit = { limit: 1, windowMs: 60_000 }
    const frame = await serve(world().routes, { access: { ...LISTED, rateLimit } })
    await frame.ask(request('GET', '/thing'))
    const result = await frame.ask(request('GET', '/thing', { Origin: DASH }))
    expect(result.status).toBe(429)
    expect(corsHeaders(result)).toEqual(shared)
  })

  test('caches are told that others get another answer', async () => {
    const frame = await serve(world().routes, { access: LISTED })
    const result = await frame.ask(request('GET', '/thing'))
    expect(result.headers['vary']).toBe('Origin')
    expect(result.headers).not.toHaveProperty('access-control-allow-origin')
  })
})

describe('writing from a web page', () => {
  type Row = [
    name: string,
    headers: Record<string, string>,
    access: typeof OPEN,
    isReached: boolean,
  ]
  const rows: Row[] = [
    ['a program', {}, OPEN, true],
    ['a listed page', { Origin: DASH }, LISTED, true],
    ['another page', { Origin: 'https://evil.example' }, LISTED, false],
    ['another page, no allowlist', { Origin: 'https://evil.example' }, OPEN, false],
    ['a file or a sandbox', { Origin: 'null' }, OPEN, false],
    ['nonsense', { Origin: 'x y' }, OPEN, false],
    ['two origins', { Origin: `${DASH}, https://evil.example` }, LISTED, false],
    ['the same address', { Origin: 'http://127.0.0.1:8080', Host: '127.0.0.1:8080' }, OPEN, true],
    ['the same IPv6 address', { Origin: 'http://[::1]:80', Host: '[::1]' }, OPEN, true],
    ['localhost', { Origin: 'http://localhost:8080', Host: 'LOCALHOST:8080' }, OPEN, true],
    ['another port', { Origin: 'http://localhost:1', Host: 'localhost:2' }, OPEN, false],
    // DNS rebinding: the page's own name, pointed at this machine.
    ['a name that is no proof', { Origin: 'http://a.example', Host: 'a.example' }, OPEN, false],
    [
      'the same with a key',
      { Origin: 'http://a.example', Host: 'a.example', Authorization: `Bearer ${key}` },
      GUARDED,
      true,
    ],
  ]
  test.each(rows)('%s', async (_name, headers, access, isReached) => {
    const { routes, reached } = world()
    const frame = await serve(routes, { access })
    for (const method of ['POST', 'DELETE'] as const) {
      const result = await frame.ask(request(method, '/thing', headers))
      if (isReached) expect(result.status).toBeLessThan(300)
      else refusedAsForeign(result)
    }
    expect(reached).toEqual(isReached ? ['POST', 'DELETE'] : [])
  })

  test.each(['text/plain', 'application/x-www-form-urlencoded', undefined])(
    'with the content type %s, which needs no preflight',
    async (type) => {
      const { routes, reached } = world()
      const frame = await serve(routes)
      const headers = { Origin: 'https://evil.example', 'Content-Type': type }
      refusedAsForeign(await frame.ask(request('POST', '/thing', headers, '{}')))
      expect(reached).toEqual([])
    },
  )

  test.each(['GET', 'HEAD', 'OPTIONS'])(
    'reading is not refused: the page does not get to see it, %s',
    async (method) => {
      const frame = await serve(world().routes)
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

  test('exact origins', () => {
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
  ])('%s is none', (text) => {
    expect(parse(text).mistakes).toHaveLength(1)
  })

  test('what is refused is told without a password', () => {
    const { mistakes } = parse('https://user:secret@dash.example.com')
    expect(mistakes).toEqual([expect.not.stringContaining('secret')])
  })
})
