import { describe, expect, test, vi } from 'vitest'
import { readJson, readOptionalJson } from '../../../src/http/message/body.ts'
import { answer } from '../../../src/http/message/respond.ts'
import { pathParameter, type Route } from '../../../src/http/route.ts'
import { EVENTUALLY, errorOf, type Frame, OJS, serve, UUID_V7 } from '../frame.ts'
import { request } from '../raw-client.ts'

const MAX = 10_000

/** Routes that answer with what they were given. */
const ECHO: Route[] = [
  {
    method: 'POST',
    path: '/echo',
    async handle(req, res) {
      answer(res, 200, JSON.stringify(await readJson(req, res, MAX)))
    },
  },
  {
    method: 'POST',
    path: '/command',
    async handle(req, res) {
      answer(res, 200, JSON.stringify(await readOptionalJson(req, res, MAX)))
    },
  },
  {
    method: 'GET',
    path: '/things/:id',
    handle(req, res) {
      answer(res, 200, JSON.stringify({ id: pathParameter(req, 'id'), query: req.query }))
    },
  },
  {
    method: 'DELETE',
    path: '/things/:id',
    handle(req, res) {
      answer(res, 200, JSON.stringify({ deleted: pathParameter(req, 'id') }))
    },
  },
  {
    method: 'GET',
    path: '/context',
    handle(req, res) {
      answer(res, 200, JSON.stringify(req.context))
    },
  },
]

const post = (body: string | Buffer, headers: Record<string, string | undefined> = {}) =>
  request('POST', '/echo', { 'Content-Type': OJS, ...headers }, body)
const chunked = (type: string, chunks: string) =>
  Buffer.concat([
    request('POST', '/command', { 'Content-Type': type, 'Transfer-Encoding': 'chunked' }),
    Buffer.from(chunks),
  ])
const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`

describe('a request that no handler sees', () => {
  type Row = [
    name: string,
    bytes: Buffer | string,
    status: number,
    code: string,
    details?: Record<string, unknown>,
  ]
  const bad = 'invalid_request'
  const rows: Row[] = [
    ['empty body', post(''), 400, 'invalid_payload', { field: 'body' }],
    ['no body at all', request('POST', '/echo'), 400, 'invalid_payload', { field: 'body' }],
    [
      'no body, foreign type',
      request('POST', '/echo', { 'Content-Type': 'text/plain' }),
      400,
      'invalid_payload',
    ],
    ['blank body', post(' \n'), 400, 'invalid_payload', { field: 'body' }],
    ['cut JSON', post('{"type":"a","args":['), 400, 'invalid_payload'],
    ['trailing comma', post('{"a":1,}'), 400, 'invalid_payload'],
    ['NaN', post('{"a":NaN}'), 400, 'invalid_payload'],
    ['two documents', post('{}{}'), 400, 'invalid_payload'],
    [
      'invalid UTF-8',
      post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])),
      400,
      'invalid_payload',
    ],
    [
      'a lone surrogate in UTF-8',
      post(Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d])),
      400,
      'invalid_payload',
    ],
    ['UTF-16', post(Buffer.from('{"a":1}', 'utf16le')), 400, 'invalid_payload'],
    ['an array', post('[]'), 400, bad, { field: 'body', expected: 'object', received: 'array' }],
    ['a string', post('"x"'), 400, bad, { field: 'body', received: 'string' }],
    ['null', post('null'), 400, bad, { field: 'body', received: 'null' }],
    ['33 levels', post(nested(33)), 400, bad, { field: `a${'[0]'.repeat(31)}`, max_depth: 32 }],
    [
      'unsafe integer',
      post('{"args":[{"n":9007199254740993}]}'),
      400,
      bad,
      { field: 'args[0].n', received: '9007199254740993' },
    ],
    ['number that overflows', post('{"args":[1,2e400]}'), 400, bad, { field: 'args[1]' }],
    [
      'text/plain',
      post('{}', { 'Content-Type': 'text/plain' }),
      400,
      bad,
      { field: 'Content-Type', received: 'text/plain' },
    ],
    [
      'a form',
      post('a=1', { 'Content-Type': 'application/x-www-form-urlencoded' }),
      400,
      bad,
      { field: 'Content-Type' },
    ],
    [
      'application/jsonx',
      post('{}', { 'Content-Type': 'application/jsonx' }),
      400,
      bad,
      { field: 'Content-Type' },
    ],
    [
      'latin-1',
      post('{}', { 'Content-Type': `${OJS}; charset=iso-8859-1` }),
      400,
      bad,
      { field: 'Content-Type', received: 'iso-8859-1' },
    ],
    [
      'a command with text',
      request('POST', '/command', { 'Content-Type': OJS }, 'go'),
      400,
      'invalid_payload',
    ],
    [
      'a command with chunks of text',
      chunked('text/plain', '2\r\n{}\r\n0\r\n\r\n'),
      400,
      bad,
      { field: 'Content-Type' },
    ],
    [
      'a command with an array',
      request('POST', '/command', { 'Content-Type': OJS }, '[1]'),
      400,
      bad,
    ],
    [
      'version 2.0',
      request('GET', '/context', { 'OJS-Version': '2.0' }),
      422,
      'unsupported',
      { field: 'OJS-Version', requested: '2.0', supported: ['1.0'] },
    ],
    ['version 1.1', request('GET', '/context', { 'OJS-Version': '1.1' }), 422, 'unsupported'],
    ['empty version', request('GET', '/context', { 'OJS-Version': '' }), 422, 'unsupported'],
    [
      'unknown route',
      request('GET', '/nowhere?x=1'),
      404,
      'not_found',
      { resource_type: 'route', resource_id: '/nowhere' },
    ],
    ['other case', request('GET', '/Context'), 404, 'not_found'],
    ['slash at the end', request('GET', '/context/'), 404, 'not_found'],
    ['malformed percent', request('GET', '/things/%E0%A4%A'), 400, bad, { field: 'path' }],
    ['lone percent', request('GET', '/things/100%'), 400, bad, { field: 'path' }],
    [
      'PUT',
      request('PUT', '/things/1'),
      405,
      bad,
      { method: 'PUT', allow: ['GET', 'HEAD', 'DELETE', 'OPTIONS'] },
    ],
    ['PATCH with body', request('PATCH', '/things/1', {}, '{}'), 405, bad],
    ['GET on a command', request('GET', '/command'), 405, bad],
    ['no Host', request('GET', '/context', { Host: undefined }), 400, bad, { field: 'Host' }],
    [
      'two keys',
      request('GET', '/context', { Authorization: 'Bearer a', AUTHORIZATION: 'Bearer b' }),
      400,
      bad,
      { field: 'Authorization' },
    ],
    [
      'two Hosts',
      request('GET', '/context', { Host: 'a', HOST: 'b' }),
      400,
      bad,
      { field: 'Host' },
    ],
    [
      'the same Host twice',
      request('GET', '/context', { host: 'test' }),
      400,
      bad,
      { field: 'Host' },
    ],
    [
      'long Idempotency-Key',
      request('GET', '/context', { 'Idempotency-Key': 'k'.repeat(257) }),
      400,
      bad,
      { field: 'Idempotency-Key', max_length: 256 },
    ],
    [
      'empty Idempotency-Key',
      request('GET', '/context', { 'Idempotency-Key': '' }),
      400,
      bad,
      { field: 'Idempotency-Key' },
    ],
    [
      'foreign Idempotency-Key',
      request('GET', '/context', { 'Idempotency-Key': 'schl\u00fcssel' }),
      400,
      bad,
    ],
  ]

  test.each(rows)('is refused: %s', async (_name, bytes, status, code, details = {}) => {
    const frame = await serve(ECHO)
    const result = await frame.ask(bytes)
    const error = errorOf(result)
    expect({ status: result.status, code: error.code }).toEqual({ status, code })
    expect(error).toMatchObject({ retryable: false, details })
    expect(error.request_id).toMatch(UUID_V7)
    expect(frame.log).toEqual([])
  })

  test('is refused with a list of the accepted content types', async () => {
    const frame = await serve(ECHO)
    const { message, details } = errorOf(
      await frame.ask(post('{}', { 'Content-Type': 'text/plain' })),
    )
    for (const taken of [OJS, 'application/json']) expect(message).toContain(taken)
    expect(details).toMatchObject({ expected: [OJS, 'application/json'] })
  })
})

test.each([
  ['OJS-Version', '2'],
  ['Origin', 'https://'],
  ['Content-Type', 'text/'],
  ['Content-Type', 'application/json; charset='],
  ['Content-Encoding', 'g'],
])('the refusal of a long %s shows its first 100 characters: %s', async (name, start) => {
  const frame = await serve(ECHO)
  const value = start.padEnd(300, 'x')
  const result = await frame.ask(request('POST', '/echo', { [name]: value }, '{}'))
  const { received, requested } = errorOf(result).details ?? {}
  expect(String(received ?? requested)).toHaveLength(100)
})

describe('a valid request', () => {
  const rows: [name: string, bytes: Buffer, body: unknown][] = [
    ['the OJS type', post('{"a":1}'), { a: 1 }],
    ['application/json', post('{"a":1}', { 'Content-Type': 'application/json' }), { a: 1 }],
    [
      'any case and parameters',
      post('{"a":1}', { 'Content-Type': 'Application/JSON ; v=1; Charset="UTF-8"' }),
      { a: 1 },
    ],
    ['charset=utf8', post('{"a":1}', { 'Content-Type': `${OJS};charset=utf8` }), { a: 1 }],
    ['no content type', post('{"a":1}', { 'Content-Type': undefined }), { a: 1 }],
    ['Content-Encoding: identity', post('{"a":1}', { 'Content-Encoding': 'Identity' }), { a: 1 }],
    ['an exotic Accept', post('{"a":1}', { Accept: 'text/html;q=0' }), { a: 1 }],
    ['a byte order mark', post('\ufeff{"a":1}'), { a: 1 }],
    ['32 levels', post(nested(32)), JSON.parse(nested(32))],
    [
      'the largest integers',
      post('{"a":[9007199254740991,-9007199254740991]}'),
      { a: [9007199254740991, -9007199254740991] },
    ],
    ['a big double', post('{"a":1.5e300}'), { a: 1.5e300 }],
    ['unicode', post('{"a":"\u00fc\ud83d\ude80\\ud83d"}'), { a: '\u00fc\ud83d\ude80\ud83d' }],
    ['duplicate members: the last wins', post('{"a":1,"a":2}'), { a: 2 }],
    ['no body for a command', request('POST', '/command'), {}],
    ['Content-Length: 0 for a command', request('POST', '/command', { 'Content-Length': '0' }), {}],
    ['an object for a command', request('POST', '/command', {}, '{"b":2}'), { b: 2 }],
    ['chunks without a byte for a command', chunked('text/plain', '0\r\n\r\n'), {}],
    ['an object in chunks for a command', chunked(OJS, '7\r\n{"b":2}\r\n0\r\n\r\n'), { b: 2 }],
    [
      'a body on GET, ignored',
      request('GET', '/things/1', { 'Content-Type': 'text/plain' }, 'x'),
      { id: '1', query: {} },
    ],
    ['a body on DELETE, ignored', request('DELETE', '/things/1', {}, '{'), { deleted: '1' }],
    [
      'percent-encoding',
      request('GET', '/things/a%2Fb%20c%00?q=1'),
      { id: 'a/b c\uFFFD', query: { q: '1' } },
    ],
    [
      'an absolute target',
      request('GET', 'http://other/things/7?q=2'),
      { id: '7', query: { q: '2' } },
    ],
    [
      'an ignored upgrade',
      request('GET', '/things/1', { Connection: 'Upgrade', Upgrade: 'h2c' }),
      { id: '1', query: {} },
    ],
    ...['1', '1.0', '1.0.0', '1.0.0-rc.1', ' 1.0 '].map((version): [string, Buffer, unknown] => [
      `OJS-Version '${version}'`,
      request('GET', '/things/1', { 'OJS-Version': version }),
      { id: '1', query: {} },
    ]),
  ]

  test.each(rows)('is accepted: %s', async (_name, bytes, body) => {
    const frame = await serve(ECHO)
    const result = await frame.ask(bytes)
    expect(result.status).toBe(200)
    expect(JSON.parse(result.body)).toEqual(body)
    expect(result.headers).toMatchObject({
      'ojs-version': '1.0',
      'content-type': OJS,
      'content-length': String(Buffer.byteLength(result.body)),
      connection: 'keep-alive',
    })
    expect(result.headers['x-request-id']).toMatch(UUID_V7)
    expect(Object.keys(result.headers)).not.toContain('x-powered-by')
    expect(Object.keys(result.headers)).not.toContain('etag')
  })
})

test('an HTTP/1.0 request needs no Host', async () => {
  const frame = await serve(ECHO)
  const result = await frame.ask('GET /things/1 HTTP/1.0\r\n\r\n')
  expect(JSON.parse(result.body)).toEqual({ id: '1', query: {} })
})

test('__proto__ in a body is plain data and changes no prototype', async () => {
  const frame = await serve(ECHO)
  const text =
    '{"__proto__":{"queue":"x"},"constructor":{"prototype":{"y":1}},"args":[{"__proto__":null}]}'
  const result = await frame.ask(post(text))
  expect(result.body).toBe(text)
  expect(({} as Record<string, unknown>)['queue']).toBeUndefined()
  expect(({} as Record<string, unknown>)['y']).toBeUndefined()
})

describe('X-Request-Id', () => {
  const rows: [name: string, sent: string, echoed: string | RegExp][] = [
    ['a token', 'req_client-1', 'req_client-1'],
    ['spaces and quotes', 'a "b" \\c', 'a "b" \\c'],
    ['blanks around it, which are trimmed', '  abc \t', 'abc'],
    ['128 characters', 'x'.repeat(128), 'x'.repeat(128)],
    ['129 characters, cut to 128', 'x'.repeat(129), 'x'.repeat(128)],
    ['characters outside of ASCII, which are removed', 'a\u00e4\tb\u0085c', 'abc'],
    ['empty, so a new one is made', '', UUID_V7],
    ['nothing printable, so a new one is made', '\u00e4\u00f6', UUID_V7],
  ]
  test.each(rows)(
    'is in the answer and in the context of the request: %s',
    async (_name, sent, echoed) => {
      const frame = await serve(ECHO)
      const ok = await frame.ask(request('GET', '/context', { 'X-Request-Id': sent }))
      expect(ok.headers['x-request-id']).toEqual(
        typeof echoed === 'string' ? echoed : expect.stringMatching(echoed),
      )
      expect(JSON.parse(ok.body).requestId).toBe(ok.headers['x-request-id'])
      const failed = await frame.ask(request('GET', '/none', { 'X-Request-Id': sent }))
      errorOf(failed)
    },
  )

  test('is different for each of 1000 requests without one', async () => {
    const frame = await serve(ECHO)
    const client = await frame.client()
    const ids = new Set<string | undefined>()
    for (let i = 0; i < 1_000; i++) {
      client.send(request('GET', '/context'))
      ids.add((await client.answer()).headers['x-request-id'])
    }
    expect(ids.size).toBe(1_000)
  })
})

test('trace context and Idempotency-Key reach the operation, without invalid values', async () => {
  const frame = await serve(ECHO)
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const contextOf = async (headers: Record<string, string>) =>
    JSON.parse((await frame.ask(request('GET', '/context', headers))).body)
  expect(
    await contextOf({
      'X-Request-Id': 'r',
      traceparent,
      tracestate: 'a=1,b=2',
      'Idempotency-Key': 'k'.repeat(256),
    }),
  ).toEqual({ requestId: 'r', traceparent, tracestate: 'a=1,b=2', idempotencyKey: 'k'.repeat(256) })
  expect(await contextOf({ 'X-Request-Id': 'r', traceparent: 'junk', tracestate: 'a=1' })).toEqual({
    requestId: 'r',
  })
  expect(await contextOf({ 'X-Request-Id': 'r', traceparent, tracestate: '=' })).toEqual({
    requestId: 'r',
    traceparent,
  })
  // Node joins repeated headers of an instrumented client; the last one is of the innermost span.
  const inner = traceparent.replace('b7ad6b7169203331', '00f067aa0ba902b7')
  expect(
    await contextOf({
      'X-Request-Id': 'r',
      traceparent: `${traceparent}, ${traceparent}, ${inner}`,
    }),
  ).toEqual({ requestId: 'r', traceparent: inner })
})

describe('HTTP methods', () => {
  test('HEAD answers like GET, without the body', async () => {
    const frame = await serve(ECHO)
    const get = await frame.ask(request('GET', '/things/1'))
    const client = await frame.client()
    client.send(request('HEAD', '/things/1'))
    const head = await client.answer(true)
    expect(head).toMatchObject({ status: 200, body: '' })
    expect(head.headers['content-length']).toBe(get.headers['content-length'])
    expect(head.headers['content-type']).toBe(OJS)
    client.send(request('GET', '/things/2'))
    expect((await client.answer()).body).toContain('"2"')
  })

  test('HEAD is 405 on a path without GET', async () => {
    const frame = await serve(ECHO)
    const result = await frame.ask(request('HEAD', '/echo'))
    expect(result).toMatchObject({ status: 405, body: '' })
    expect(result.headers['allow']).toBe('POST, OPTIONS')
  })

  test('PUT is 405 with an Allow header', async () => {
    const frame = await serve(ECHO)
    const result = await frame.ask(request('PUT', '/things/1'))
    expect(result.headers['allow']).toBe('GET, HEAD, DELETE, OPTIONS')
  })

  test.each([
    ['/things/1', 'GET, HEAD, DELETE, OPTIONS'],
    ['/echo', 'POST, OPTIONS'],
    ['*', 'GET, HEAD, POST, PUT, DELETE, OPTIONS'],
  ])('OPTIONS %s is 204 with Allow: %s', async (path, allow) => {
    const frame = await serve(ECHO)
    const result = await frame.ask(request('OPTIONS', path))
    expect(result).toMatchObject({ status: 204, body: '' })
    expect(result.headers).toMatchObject({ allow, 'ojs-version': '1.0' })
    expect(result.headers['x-request-id']).toMatch(UUID_V7)
    expect(result.headers).not.toHaveProperty('content-type')
  })

  test('OPTIONS on an unknown path is 404', async () => {
    const frame = await serve(ECHO)
    expect(errorOf(await frame.ask(request('OPTIONS', '/none'))).code).toBe('not_found')
  })

  test('a second route for the same method and path makes the start fail', () => {
    const [route] = ECHO
    const twice = [route, route].flatMap((one) => (one ? [one] : []))
    return expect(serve(twice)).rejects.toThrow('two routes for POST /echo')
  })
})

test('a 404 has a hint and a link', async () => {
  const frame = await serve(ECHO)
  const error = errorOf(await frame.ask(request('GET', '/none')))
  expect(error.hint).toMatch(/path/)
  expect(error.docs_url).toMatch(/^https:/)
})

test('an error that a handler throws after its answer affects neither answer nor connection', async () => {
  const late: Route = {
    method: 'GET',
    path: '/late',
    handle(_request, response) {
      answer(response, 200, '{}')
      throw new Error('late')
    },
  }
  const client = await (await serve([late])).client()
  for (let i = 0; i < 2; i++) {
    client.send(request('GET', '/late'))
    expect(await client.answer()).toMatchObject({ status: 200, body: '{}' })
  }
})

test('twenty pipelined requests are answered in order', async () => {
  const frame = await serve(ECHO)
  const client = await frame.client()
  const bodies = Array.from({ length: 20 }, (_, i) => JSON.stringify({ i }))
  client.send(Buffer.concat(bodies.map((body) => post(body))))
  for (const body of bodies) expect((await client.answer()).body).toBe(body)
})

test('a body that comes in single bytes is read whole', async () => {
  const frame = await serve(ECHO)
  const client = await frame.client()
  const bytes = post('{"name":"\u00fc"}')
  for (let i = 0; i < bytes.length; i++) {
    client.send(bytes.subarray(i, i + 1))
    await new Promise(setImmediate)
  }
  expect((await client.answer()).body).toBe('{"name":"\u00fc"}')
})

describe('the observer of requests', () => {
  const heard = async (frame: Frame, bytes: Buffer) => {
    const askedAt = performance.now()
    await frame.ask(bytes)
    await expect.poll(() => frame.done.length, EVENTUALLY).toBe(1)
    expect(frame.done[0]?.seconds).toBeLessThan((performance.now() - askedAt) / 1_000)
    return frame.done[0]
  }
  test.each([
    ['the template of the path', request('GET', '/things/4711'), '/things/:id', 'GET', 200],
    ['unmatched for an unknown path', request('GET', '/things/4711/x'), 'unmatched', 'GET', 404],
    ['the template for a 405', request('PUT', '/things/1'), '/things/:id', 'PUT', 405],
  ])('gets route, method, status and time: %s', async (_name, bytes, route, method, status) => {
    const frame = await serve(ECHO)
    const done = await heard(frame, bytes)
    expect(done).toMatchObject({ route, method, status })
    expect(done?.seconds).toBeGreaterThan(0)
  })
})

test('Express changes no prototype of requests and responses (docs/architecture.md §7: three times the speed)', async () => {
  const changed: unknown[] = []
  const original = Object.setPrototypeOf
  const spy = vi.spyOn(Object, 'setPrototypeOf').mockImplementation((object, prototype) => {
    if (Object.getPrototypeOf(object) !== prototype) changed.push(object)
    return original(object, prototype)
  })
  const frame = await serve(ECHO)
  changed.length = 0
  await frame.ask(request('GET', '/things/1'))
  expect(spy).toHaveBeenCalled()
  expect(changed).toEqual([])
  spy.mockRestore()
})
