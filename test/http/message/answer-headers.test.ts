import { expect, test, vi } from 'vitest'
import type * as answerHeaders from '../../../src/http/message/answer-headers.ts'
import { answer, answerText } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import { OJS, serve } from '../frame.ts'
import { type RawAnswer, request } from '../raw-client.ts'

/** A header that is added in the one place where it would be added to every answer. */
vi.mock(import('../../../src/http/message/answer-headers.ts'), async (original) => {
  const real: typeof answerHeaders = await original()
  return { ...real, answerHeaders: (...given) => [...real.answerHeaders(...given), 'X-New', 'yes'] }
})

const ROUTES: Route[] = [
  { method: 'GET', path: '/thing', handle: (_request, response) => answer(response, 200, '{}') },
  { method: 'POST', path: '/thing', handle: (_request, response) => answer(response, 201, '{}') },
  {
    method: 'GET',
    path: '/text',
    handle: (_request, response) => answerText(response, 'text/plain', 'up 1\n'),
  },
  {
    method: 'GET',
    path: '/broken',
    handle() {
      throw new Error('a bug')
    },
  },
]

const ROWS: [name: string, bytes: string | Buffer, status: number, content: string | undefined][] =
  [
    ['200', request('GET', '/thing'), 200, OJS],
    ['200 to HEAD', request('HEAD', '/thing'), 200, OJS],
    ['200 that is not OJS', request('GET', '/text'), 200, 'text/plain'],
    ['201', request('POST', '/thing', {}, '{}'), 201, OJS],
    ['204 to OPTIONS', request('OPTIONS', '/thing'), 204, undefined],
    ['204 to OPTIONS *', request('OPTIONS', '*'), 204, undefined],
    ['400 of an unusable target', request('GET', 'foo://bar'), 400, OJS],
    ['404 of an unknown path', request('GET', '/nowhere'), 404, OJS],
    ['404 to HEAD', request('HEAD', '/nowhere'), 404, OJS],
    ['405', request('DELETE', '/thing'), 405, OJS],
    ['417', request('GET', '/thing', { Expect: 'miracles' }), 417, OJS],
    ['422', request('GET', '/thing', { 'OJS-Version': '9' }), 422, OJS],
    ['500', request('GET', '/broken'), 500, OJS],
    ['400 of a bad request line', 'hello\r\n\r\n', 400, OJS],
    ['431 of headers above 16 KiB', request('GET', '/', { A: 'x'.repeat(17_000) }), 431, OJS],
    ['405 of CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405, OJS],
  ]

test.each(ROWS)(
  'the headers of every answer are those of %s',
  async (_, bytes, status, content) => {
    const frame = await serve(ROUTES)
    const { headers, ...answered } = await frame.ask(bytes)
    expect(answered.status).toBe(status)
    expect(headers).toMatchObject({
      'ojs-version': '1.0',
      'x-request-id': expect.stringMatching(/^req_/),
      'x-content-type-options': 'nosniff',
      'x-new': 'yes',
      date: expect.any(String),
    })
    expect(headers['content-type']).toBe(content)
    expect(headers['content-length'] === undefined).toBe(content === undefined)
  },
)

test.each(ROWS)('and so are those of its rate limit: %s', async (_, bytes, status) => {
  const rateLimit = { limit: 5, windowMs: 60_000 }
  const frame = await serve(ROUTES, { access: { apiKeys: [], corsOrigins: [], rateLimit } })
  const answered: RawAnswer = await frame.ask(bytes)
  expect(answered.status).toBe(status)
  expect(answered.headers).toMatchObject({ 'x-ratelimit-limit': '5', 'x-new': 'yes' })
})
