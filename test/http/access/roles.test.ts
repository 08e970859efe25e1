import type { Request, Response } from 'express'
import { describe, expect, test } from 'vitest'
import { newApiKey, parseApiKeys, ROLES, type Role } from '../../../src/http/access/api-keys.ts'
import type { Access } from '../../../src/http/access/roles.ts'
import { readJson } from '../../../src/http/message/body.ts'
import { answer } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import type { Door } from '../../../src/http/routes/route-deps.ts'
import { routesOf } from '../../../src/http/server.ts'
import type { AuditRecord } from '../../../src/operations/audit.ts'
import type { Health } from '../../../src/operations/health.ts'
import { openDoor } from '../door.ts'
import { EVENTUALLY, errorOf, type Frame, serve } from '../frame.ts'
import { type RawAnswer, request } from '../raw-client.ts'

/** The roles that may use each endpoint, beside `admin`. A new endpoint needs a row here. */
const TABLE: Record<string, Access> = {
  'GET /ojs/manifest': 'anybody',
  'GET /ojs/v1/health': 'anybody',
  'GET /ojs/v1/openapi.json': 'anybody',
  'GET /ojs/v1/session': 'anybody',
  'GET /ojs/v1/session/login': 'anybody',
  'POST /ojs/v1/session': 'anybody',
  'DELETE /ojs/v1/session': 'anybody',
  'GET /health': 'anybody',
  'GET /ready': 'anybody',
  'GET /readyz': 'anybody',
  'GET /livez': 'anybody',
  'GET /healthz': 'anybody',
  'GET /metrics': ['operator', 'reader'],
  'GET /ojs/v1/metrics': ['operator', 'reader'],
  'POST /ojs/v1/jobs': ['producer'],
  'POST /ojs/v1/jobs/batch': ['producer'],
  'POST /ojs/v1/jobs/:id/activate': ['producer'],
  'GET /ojs/v1/admin/audit': ['operator'],
  'GET /ojs/v1/admin/rabbitmq': ['operator'],
  'GET /ojs/v1/admin/jobs/:id/message': ['operator', 'reader'],
  'GET /ojs/v1/admin/system/ledger': ['operator'],
  'GET /ojs/v1/admin/rabbitmq/queues': ['operator'],
  'GET /ojs/v1/jobs': ['operator', 'reader'],
  'GET /ojs/v1/admin/jobs': ['operator', 'reader'],
  'GET /ojs/v1/admin/jobs/:id': ['operator', 'reader'],
  'GET /ojs/v1/jobs/:id': ['producer', 'worker', 'reader', 'operator'],
  'DELETE /ojs/v1/jobs/:id': ['operator'],
  'PATCH /ojs/v1/jobs/:id': ['operator'],
  'PATCH /ojs/v1/admin/jobs/:id': ['operator'],
  'GET /ojs/v1/jobs/:id/history': ['producer', 'worker', 'operator'],
  'DELETE /ojs/v1/jobs/:id/history': [],
  'GET /ojs/v1/jobs/:id/retries': ['producer', 'worker', 'operator'],
  'POST /ojs/v1/workers/fetch': ['worker'],
  'POST /ojs/v1/workers/ack': ['worker'],
  'POST /ojs/v1/workers/nack': ['worker'],
  'POST /ojs/v1/workers/settle': ['worker'],
  'POST /ojs/v1/workers/heartbeat': ['worker'],
  'POST /ojs/v1/workers/beat': ['worker'],
  'GET /ojs/v1/workers/:id/health': ['worker', 'operator', 'reader'],
  'POST /ojs/v1/jobs/:id/ack': ['worker'],
  'POST /ojs/v1/jobs/:id/nack': ['worker'],
  'GET /ojs/v1/jobs/:id/result': ['producer', 'worker', 'operator'],
  'POST /ojs/v1/jobs/results': ['producer', 'worker', 'operator'],
  'PUT /ojs/v1/jobs/:id/progress': ['worker'],
  'GET /ojs/v1/jobs/:id/progress': ['producer', 'worker', 'operator'],
  'GET /ojs/v1/jobs/:id/progress/stream': ['producer', 'worker', 'operator'],
  'POST /ojs/v1/workers/progress': ['worker'],
  'PUT /ojs/v1/jobs/:id/checkpoint': ['worker'],
  'POST /ojs/v1/jobs/:id/checkpoint': ['worker'],
  'GET /ojs/v1/jobs/:id/checkpoint': ['worker', 'operator'],
  'DELETE /ojs/v1/jobs/:id/checkpoint': ['worker', 'operator'],
  'GET /ojs/v1/queues': ['operator', 'reader'],
  'GET /ojs/v1/queues/:name': ['operator', 'reader'],
  'GET /ojs/v1/queues/:name/priority-stats': ['operator', 'reader'],
  'GET /ojs/v1/rate-limits': ['operator', 'reader'],
  'GET /ojs/v1/rate-limits/:key': ['operator', 'reader'],
  'GET /ojs/v1/queues/:name/stats': ['operator', 'reader'],
  'DELETE /ojs/v1/queues/:name': [],
  'PUT /ojs/v1/queues/:name/config': [],
  'PUT /ojs/v1/admin/queues/:name/config': [],
  'POST /ojs/v1/admin/queues/:name/drain': ['operator'],
  'POST /ojs/v1/queues/:name/pause': ['operator'],
  'POST /ojs/v1/queues/:name/resume': ['operator'],
  'GET /ojs/v1/dead-letter': ['operator', 'reader'],
  'POST /ojs/v1/dead-letter/:id/retry': ['operator'],
  'GET /ojs/v1/dead-letter/:id': ['operator', 'reader'],
  'DELETE /ojs/v1/dead-letter/:id': ['operator'],
  'GET /ojs/v1/dead-letter/stats': ['operator', 'reader'],
  'POST /ojs/v1/dead-letter/retry': ['operator'],
  'POST /ojs/v1/dead-letter/purge': [],
  'DELETE /ojs/v1/dead-letter': [],
  'GET /ojs/v1/admin/failures': ['operator'],
  'GET /ojs/v1/admin/dead-letter': ['operator', 'reader'],
  'GET /ojs/v1/admin/dead-letter/stats': ['operator', 'reader'],
  'POST /ojs/v1/admin/dead-letter/retry': ['operator'],
  'POST /ojs/v1/admin/dead-letter/purge': [],
  'DELETE /ojs/v1/admin/dead-letter': [],
  'POST /ojs/v1/admin/dead-letter/:id/retry': ['operator'],
  'DELETE /ojs/v1/admin/dead-letter/:id': ['operator'],
  'POST /ojs/v1/admin/jobs/:id/cancel': ['operator'],
  'POST /ojs/v1/admin/jobs/:id/retry': ['operator'],
  'POST /ojs/v1/admin/jobs/:id/copy': ['operator'],
  'DELETE /ojs/v1/admin/jobs/:id': ['operator'],
  'POST /ojs/v1/admin/jobs/bulk/retry': ['operator'],
  'POST /ojs/v1/admin/jobs/bulk/cancel': ['operator'],
  'POST /ojs/v1/admin/jobs/bulk/delete': [],
  'POST /ojs/v1/jobs/bulk': ['producer'],
  'POST /ojs/v1/jobs/bulk/retry': ['operator'],
  'POST /ojs/v1/jobs/bulk/cancel': ['operator'],
  'POST /ojs/v1/jobs/bulk/delete': [],
  'GET /ojs/v1/admin/operations': ['operator'],
  'GET /ojs/v1/admin/operations/:id': ['operator'],
  'POST /ojs/v1/admin/operations/:id/stop': ['operator'],
  'GET /ojs/v1/admin/cron/times': ['operator'],
  'GET /ojs/v1/cron': ['operator'],
  'POST /ojs/v1/cron': ['operator'],
  'GET /ojs/v1/cron/:name': ['operator'],
  'DELETE /ojs/v1/cron/:name': ['operator'],
  'PUT /ojs/v1/cron/:name': ['operator'],
  'PATCH /ojs/v1/cron/:name': ['operator'],
  'POST /ojs/v1/cron/:name/pause': ['operator'],
  'POST /ojs/v1/cron/:name/resume': ['operator'],
  'POST /ojs/v1/cron/:name/trigger': ['operator'],
  'GET /ojs/v1/cron/:name/history': ['operator'],
  'POST /ojs/v1/workflows': ['producer'],
  'GET /ojs/v1/workflows': ['operator'],
  'GET /ojs/v1/workflows/:id': ['producer', 'operator'],
  'GET /ojs/v1/workflows/:id/progress': ['producer', 'operator'],
  'DELETE /ojs/v1/workflows/:id': ['producer', 'operator'],
  'GET /ojs/v1/schemas': ['operator'],
  'POST /ojs/v1/schemas': [],
  'GET /ojs/v1/schemas/:uri': ['operator'],
  'DELETE /ojs/v1/schemas/:uri': [],
  'GET /ojs/v1/events': ['operator'],
  'GET /ojs/v1/admin/stats': ['operator', 'reader'],
  'GET /ojs/v1/admin/queues': ['operator', 'reader'],
  'GET /ojs/v1/admin/queues/:name': ['operator', 'reader'],
  'GET /ojs/v1/admin/workers': ['operator', 'reader'],
  'GET /ojs/v1/admin/workers/:id': ['operator', 'reader'],
  'GET /ojs/v1/admin/stats/history': ['operator', 'reader'],
  'GET /ojs/v1/events/stream': ['operator'],
  'GET /ojs/v1/jobs/:id/events': ['producer', 'worker', 'operator'],
  'GET /ojs/v1/queues/:name/events': ['operator'],
  'GET /ojs/v1/admin/stats/stream': ['operator'],
  'POST /ojs/v1/admin/workers/:id/quiet': ['operator'],
  'POST /ojs/v1/admin/workers/:id/terminate': ['operator'],
  'POST /ojs/v1/admin/workers/directive': ['operator'],
  'GET /ojs/v1/admin/system/maintenance': ['operator'],
  'POST /ojs/v1/admin/queues/:name/pause': ['operator'],
  'POST /ojs/v1/admin/queues/:name/resume': ['operator'],
  'POST /ojs/v1/queues': [],
  'DELETE /ojs/v1/admin/queues/:name/jobs': [],
  'POST /ojs/v1/admin/system/maintenance': [],
  'GET /ojs/v1/admin/maintenance': ['operator'],
  'POST /ojs/v1/admin/maintenance': [],
  'GET /ojs/v1/admin/system/config': ['operator'],
  'GET /ojs/v1/admin/config': ['operator'],
  'DELETE /ojs/v1/admin/workers/:id': [],
  'POST /ojs/v1/admin/queues/:name/recover': ['operator'],
  'POST /ojs/v1/admin/retention/resume': ['operator'],
}

/** The endpoints of OJS's document of the Admin API. */
const ADMIN_API = [
  ...['stats', 'stats/history', 'queues', 'queues/:name', 'jobs', 'jobs/:id', 'workers'],
  ...['workers/:id', 'dead-letter', 'dead-letter/stats', 'system/config'],
]
  .map((path) => `GET /ojs/v1/admin/${path}`)
  .concat(
    [
      ...['queues/:name/pause', 'queues/:name/resume', 'jobs/:id/cancel', 'jobs/:id/retry'],
      ...['jobs/bulk/retry', 'jobs/bulk/cancel', 'jobs/bulk/delete', 'workers/:id/quiet'],
      ...['dead-letter/:id/retry', 'dead-letter/retry', 'system/maintenance'],
    ].map((path) => `POST /ojs/v1/admin/${path}`),
    ['queues/:name/jobs', 'workers/:id', 'dead-letter', 'dead-letter/:id'].map(
      (path) => `DELETE /ojs/v1/admin/${path}`,
    ),
    'PUT /ojs/v1/admin/queues/:name/config',
  )

const made = new Map(ROLES.map((role) => [role, newApiKey(`the-${role}`, role)]))
const apiKeys = parseApiKeys([...made.values()].map(({ entry }) => entry).join(), [])
const access = { apiKeys, corsOrigins: [], rateLimit: undefined }
const bearer = (role: Role) => ({ Authorization: `Bearer ${made.get(role)?.key}` })
const hashes = apiKeys.map(({ sha256 }) => sha256.toString('hex'))

const nameOf = ({ method, path }: Route) => `${method} ${path}`

const ALL = routesOf({} as unknown as Door)

/** Every route of the gateway, with a handler that answers 200. */
const ROUTES: Route[] = ALL.map((route) => ({
  ...route,
  handle: (_request, response) => answer(response, 200, '{"reached":true}'),
}))

/** The status that each role, a wrong key, and no key get. */
async function outcomes(frame: Frame, { method, path }: Route): Promise<Record<string, number>> {
  const target = path.replace(/:\w+/g, 'x')
  const client = await frame.client()
  const ask = async (headers: Record<string, string>) => {
    client.send(
      request(
        method,
        target,
        headers,
        ['POST', 'PUT', 'PATCH'].includes(method) ? '{}' : undefined,
      ),
    )
    return (await client.answer()).status
  }
  const statuses: Record<string, number> = {
    nobody: await ask({}),
    stranger: await ask({ Authorization: 'Bearer ojs_wrong' }),
  }
  for (const role of ROLES) statuses[role] = await ask(bearer(role))
  return statuses
}

function expected(allowed: Access): Record<string, number> {
  if (allowed === 'anybody') {
    return Object.fromEntries(['nobody', 'stranger', ...ROLES].map((who) => [who, 200]))
  }
  const status = (role: Role) => (role === 'admin' || allowed.includes(role) ? 200 : 403)
  const roles = ROLES.map((role) => [role, status(role)])
  return { nobody: 401, stranger: 401, ...Object.fromEntries(roles) }
}

describe('access to endpoints', () => {
  test('is listed in the table of this test for every endpoint, and no other', () => {
    expect(new Set(ALL.map(nameOf))).toEqual(new Set(Object.keys(TABLE)))
  })

  test.each(ROUTES.map((route) => [nameOf(route), route] as const))(
    'is as in the table: %s',
    async (name, route) => {
      const frame = await serve(ROUTES, { access })
      expect(await outcomes(frame, route)).toEqual(expected(TABLE[name] ?? []))
    },
  )

  test('ADM-008 to the Admin API is below /ojs/v1/admin, and neither for producers nor for workers', () => {
    const served = new Map(ALL.map((route) => [nameOf(route), route.access ?? []]))
    for (const name of ADMIN_API) expect(served.has(name), name).toBe(true)
    for (const [name, allowed] of served) {
      if (!name.includes('/admin')) continue
      expect(name).toMatch(/^[A-Z]+ \/ojs\/v1\/admin\//)
      for (const role of ['producer', 'worker']) expect(allowed, name).not.toContain(role)
    }
  })

  test('is for admins only on a route without `access`', async () => {
    const route: Route = {
      method: 'GET',
      path: '/new',
      handle: (_request, response) => answer(response, 200, '{}'),
    }
    const frame = await serve([route], { access })
    expect(await outcomes(frame, route)).toEqual(expected([]))
  })

  test('needs for HEAD the same key as for GET', async () => {
    const frame = await serve(ROUTES, { access })
    expect((await frame.ask(request('HEAD', '/metrics'))).status).toBe(401)
    expect((await frame.ask(request('HEAD', '/metrics', bearer('operator')))).status).toBe(200)
  })

  test('is unrestricted without OJS_API_KEYS', async () => {
    const frame = await serve(ROUTES)
    for (const route of ROUTES) {
      expect(Object.values(await outcomes(frame, route)), nameOf(route)).toEqual(
        Array.from({ length: ROLES.length + 2 }, () => 200),
      )
    }
  })
})

describe('the answer of health', () => {
  const reason = 'connect ECONNREFUSED 10.0.0.7:5672'
  const body: Health['body'] = {
    status: 'degraded',
    draining: false,
    maintenance: false,
    version: '1.0',
    uptime_seconds: 1,
    backend: { type: 'rabbitmq', status: 'disconnected', error: reason },
    ledger: { type: 'sqlite', status: 'writable' },
    warnings: [{ code: 'queue_differs', message: 'ojs.queue.payroll differs' }],
  }
  const told = async (needsKeys: boolean, headers: Record<string, string>) => {
    const door = { needsKeys, health: () => ({ healthy: false, body }) }
    const frame = await serve(routesOf(door as unknown as Door), needsKeys ? { access } : {})
    const result = await frame.ask(request('GET', '/ojs/v1/health', headers))
    expect(result.status).toBe(503)
    return JSON.parse(result.body)
  }

  test.each(['operator', 'admin'] as const)(
    'has reasons and warnings for a key of the role %s',
    async (role) => {
      expect(await told(true, bearer(role))).toEqual(body)
    },
  )

  test('has reasons and warnings for anybody without OJS_API_KEYS', async () => {
    expect(await told(false, {})).toEqual(body)
  })

  test('hides the reason from a request with a foreign Host', async () => {
    const { error } = (await told(false, { Host: 'evil.example:8080' })).backend
    expect(error).toBe('The reason is shown to operators only.')
    expect((await told(false, { Host: 'localhost:8080' })).backend.error).toBe(reason)
  })

  test.each([
    ['no key', {}],
    ['a wrong key', { Authorization: 'Bearer ojs_wrong' }],
    ['a key of the role producer', bearer('producer')],
    ['a key of the role worker', bearer('worker')],
  ])('says that the gateway is degraded, but not why, to %s', async (_who, headers) => {
    const { warnings: _, ...rest } = body
    expect(await told(true, headers)).toEqual({
      ...rest,
      backend: { ...body.backend, error: 'The reason is shown to operators only.' },
    })
  })
})

describe('refusals of access', () => {
  const push = (headers: Record<string, string>) =>
    request('POST', '/ojs/v1/jobs', { 'X-Request-Id': 'req_r', ...headers }, '{}')

  test.each<[name: string, headers: Record<string, string>, challenge: string, reason: string]>([
    ['no key', {}, 'Bearer realm="ojs"', 'missing_token'],
    ['another scheme', { Authorization: 'Basic YTpi' }, 'Bearer realm="ojs"', 'missing_token'],
    [
      'a wrong key',
      { Authorization: 'Bearer nothing' },
      'Bearer realm="ojs", error="invalid_token"',
      'invalid_token',
    ],
  ])('are 401 with a challenge for %s', async (_name, headers, challenge, reason) => {
    const frame = await serve(ROUTES, { access })
    const result = await frame.ask(push(headers))
    expect(result.status).toBe(401)
    expect(result.headers['www-authenticate']).toBe(challenge)
    expect(errorOf(result)).toMatchObject({
      code: 'x_unauthenticated',
      retryable: false,
      details: { reason },
      request_id: 'req_r',
    })
  })

  test('are 400 for two keys, also where no key is needed: a proxy may have checked the other one', async () => {
    const frame = await serve(ROUTES, { access })
    const two = { ...bearer('producer'), AUTHORIZATION: bearer('admin').Authorization }
    for (const sent of [push(two), request('GET', '/ojs/v1/health', two)]) {
      const result = await frame.ask(sent)
      expect([result.status, errorOf(result).details]).toEqual([400, { field: 'Authorization' }])
    }
  })

  test('are 403 with the allowed roles for a key of another role', async () => {
    const frame = await serve(ROUTES, { access })
    const result = await frame.ask(push(bearer('worker')))
    expect(result.status).toBe(403)
    expect(errorOf(result)).toMatchObject({
      code: 'x_forbidden',
      retryable: false,
      details: { reason: 'role', role: 'worker', allowed_roles: ['producer', 'admin'] },
    })
  })

  test('come before the body is read: the handler does not run, and a large body closes the connection', async () => {
    const seen: unknown[] = []
    const route: Route = {
      method: 'POST',
      path: '/jobs',
      access: ['producer'],
      async handle(req, res) {
        seen.push(await readJson(req, res, 1_000_000))
        answer(res, 200, '{}')
      },
    }
    const frame = await serve([route], { access })
    const client = await frame.client()
    // The client never sends any of these bodies.
    const small = request('POST', '/jobs', { 'Content-Length': '2' })
    client.send(small)
    expect(await client.answer()).toMatchObject({
      status: 401,
      headers: { connection: 'keep-alive' },
    })
    const other = await frame.client()
    other.send(request('POST', '/jobs', { 'Content-Length': '500000' }))
    expect(await other.answer()).toMatchObject({ status: 401, headers: { connection: 'close' } })
    const endless = await frame.client()
    endless.send(request('POST', '/jobs', { 'Transfer-Encoding': 'chunked' }))
    expect(await endless.answer()).toMatchObject({ status: 401, headers: { connection: 'close' } })
    expect(seen).toEqual([])
  })

  test('close the connection if a large or chunked body follows, also for a 404', async () => {
    const frame = await serve(ROUTES)
    const answered = async (headers: Record<string, string>) => {
      const client = await frame.client()
      client.send(request('POST', '/nowhere', headers))
      const { status, headers: got } = await client.answer()
      return [status, got['connection']]
    }
    expect(await answered({ 'Content-Length': '2' })).toEqual([404, 'keep-alive'])
    expect(await answered({ 'Content-Length': '500000' })).toEqual([404, 'close'])
    expect(await answered({ 'Transfer-Encoding': 'chunked' })).toEqual([404, 'close'])
  })

  test('answer Expect: 100-continue with 401, not with 100', async () => {
    const frame = await serve(ROUTES, { access })
    const client = await frame.client()
    client.send(request('POST', '/ojs/v1/jobs', { Expect: '100-continue', 'Content-Length': '9' }))
    expect((await client.answer()).status).toBe(401)
  })
})

describe('the log of requests', () => {
  const lines = (frame: Frame, message: string) =>
    frame.log.filter((line) => line.message === message)

  test('names the key of each request, and has neither keys nor hashes', async () => {
    const frame = await serve(ROUTES, { access })
    const ask = (method: string, path: string, role: Role): Promise<RawAnswer> =>
      frame.ask(request(method, path, { ...bearer(role), 'X-Request-Id': `req_${role}` }))
    await ask('POST', '/ojs/v1/jobs', 'producer')
    await ask('POST', '/ojs/v1/workers/fetch', 'worker')
    await ask('GET', '/ojs/v1/queues', 'operator')
    await ask('DELETE', '/ojs/v1/jobs/x', 'worker')
    await frame.ask(request('GET', '/metrics', { Authorization: 'Bearer ojs_stranger' }))
    expect(frame.log.map(({ level, message, fields }) => [level, message, fields['key']])).toEqual([
      ['info', 'request', 'the-producer'],
      ['debug', 'request', 'the-worker'],
      ['debug', 'request', 'the-operator'],
      ['warn', 'request refused', 'the-worker'],
      ['warn', 'request refused', undefined],
    ])
    expect(frame.log[0]?.fields).toEqual({
      key: 'the-producer',
      role: 'producer',
      address: '127.0.0.1',
      requestId: 'req_producer',
      method: 'POST',
      route: '/ojs/v1/jobs',
      status: 200,
    })
    const text = JSON.stringify(frame.log)
    for (const secret of [...[...made.values()].map(({ key }) => key), ...hashes, 'ojs_stranger']) {
      expect(text).not.toContain(secret)
    }
  })

  test('has requests whose client left before the answer, with status 0 unless they were answered', async () => {
    const began: string[] = []
    const answers: (() => void)[] = []
    const slow = ROUTES.map((route) => ({
      ...route,
      async handle(request: Request, response: Response) {
        began.push(request.path)
        await new Promise<void>((resolve) => answers.push(resolve))
        answer(response, 200, '{}')
      },
    }))
    const frame = await serve(slow, { access })
    const client = await frame.client()
    const poll = request('POST', '/ojs/v1/workers/fetch', bearer('worker'), '{}')
    const pause = request('POST', '/ojs/v1/queues/q/pause', bearer('operator'), '{}')
    const resume = request('POST', '/ojs/v1/queues/q/resume', bearer('operator'), '{}')
    client.send(Buffer.concat([poll, pause, resume]))
    await expect.poll(() => began, EVENTUALLY).toHaveLength(3)
    // Answered, but not written, because the answer to the first request has to be written before.
    answers[1]?.()
    await frame.ask(request('GET', '/nowhere'))
    client.socket.resetAndDestroy()
    await expect.poll(() => lines(frame, 'request'), EVENTUALLY).toHaveLength(4)
    for (const done of answers) done()
    await frame.ask(request('GET', '/nowhere'))
    const told = frame.log.map(({ level, fields }) => [level, fields['route'], fields['status']])
    expect(frame.log.map(({ fields }) => fields['address'])).toEqual(Array(5).fill('127.0.0.1'))
    expect(told).toEqual([
      ['debug', 'unmatched', 404],
      ['debug', '/ojs/v1/workers/fetch', 0],
      ['info', '/ojs/v1/queues/:name/pause', 200],
      ['info', '/ojs/v1/queues/:name/resume', 0],
      ['debug', 'unmatched', 404],
    ])
  })

  test('is kept as a record of what operators do and of what is refused to a key, no more', async () => {
    const kept: AuditRecord[] = []
    const frame = await serve(ROUTES, { access, now: () => 5, audit: (each) => kept.push(each) })
    const ask = (method: string, path: string, role: Role) =>
      frame.ask(request(method, path, { ...bearer(role), 'X-Request-Id': `req_${role}` }))
    await ask('POST', '/ojs/v1/jobs', 'producer')
    await ask('POST', '/ojs/v1/workers/fetch', 'worker')
    await ask('GET', '/ojs/v1/queues', 'operator')
    await ask('POST', '/ojs/v1/jobs/results', 'producer')
    await ask('DELETE', '/ojs/v1/jobs/x', 'worker')
    await frame.ask(request('DELETE', '/ojs/v1/jobs/x', { Authorization: 'Bearer ojs_stranger' }))
    await ask('POST', `/ojs/v1/queues/a%20b/pause?why=${'x'.repeat(600)}`, 'operator')
    await ask('DELETE', '/ojs/v1/admin/dead-letter', 'admin')
    await ask('POST', '/ojs/v1/jobs', 'admin')
    expect(kept.map(({ key, method, route, status }) => [key, method, route, status])).toEqual([
      ['the-worker', 'DELETE', '/ojs/v1/jobs/:id', 403],
      ['the-operator', 'POST', '/ojs/v1/queues/:name/pause', 200],
      ['the-admin', 'DELETE', '/ojs/v1/admin/dead-letter', 200],
    ])
    const path = `/ojs/v1/queues/a%20b/pause?why=${'x'.repeat(600)}`.slice(0, 512)
    const who = { role: 'operator', address: '127.0.0.1', requestId: 'req_operator', at: 5, path }
    expect(kept[1]).toMatchObject(who)
    const ofResults = frame.log.filter(({ fields }) => fields['route'] === '/ojs/v1/jobs/results')
    expect(ofResults).toMatchObject([{ level: 'debug' }])
  })

  test('is kept without keys, too, of what steers something, and then nothing is logged', async () => {
    const kept: AuditRecord[] = []
    const frame = await serve(ROUTES, { audit: (each) => kept.push(each) })
    await frame.ask(request('POST', '/ojs/v1/jobs'))
    await frame.ask(request('GET', '/ojs/v1/queues'))
    await frame.ask(request('POST', '/ojs/v1/jobs/results'))
    await frame.ask(request('POST', '/ojs/v1/queues/q/pause'))
    expect(kept).toMatchObject([{ key: null, role: null, address: '127.0.0.1', status: 200 }])
    expect(frame.log).toEqual([])
  })

  test('names the key of a request that failed', async () => {
    const route: Route = {
      method: 'GET',
      path: '/broken',
      handle() {
        throw new Error('broken')
      },
    }
    const frame = await serve([route], { access })
    await frame.ask(request('GET', '/broken', bearer('admin')))
    expect(lines(frame, 'request failed')[0]?.fields).toMatchObject({ key: 'the-admin' })
  })

  test('has at most ten refused requests in 10 s, and then the number of suppressed lines', async () => {
    let now = 0
    const frame = await serve(ROUTES, { access, now: () => now })
    const client = await frame.client()
    const knock = async () => {
      client.send(request('GET', '/metrics'))
      await client.answer()
    }
    for (let i = 0; i < 30; i++) await knock()
    expect(lines(frame, 'request refused')).toHaveLength(10)
    now = 10_001
    for (let i = 0; i < 2; i++) await knock()
    const later = lines(frame, 'request refused').slice(10)
    expect(later.map(({ fields }) => fields['suppressed'])).toEqual([20, undefined])
  })

  test.each([
    ['POST', '/nowhere', 404],
    ['POST', '/ojs/v1/health', 405],
    ['DELETE', '/ojs/v1/jobs/%zz', 400],
  ])(
    'has at most ten lines in 10 s about requests without a key to %s %s',
    async (method, path, status) => {
      const frame = await serve(ROUTES, { access, now: () => 0 })
      const client = await frame.client()
      for (let i = 0; i < 30; i++) {
        client.send(request(method, path))
        expect((await client.answer()).status).toBe(status)
      }
      expect(frame.log).toHaveLength(10)
      expect(frame.log[0]).toMatchObject({ message: 'request refused', fields: { status } })
    },
  )

  test('has at most ten lines in 10 s about 429s of one key', async () => {
    const rateLimit = { limit: 1, windowMs: 60_000 }
    const frame = await serve(ROUTES, { access: { ...access, rateLimit }, now: () => 0 })
    const client = await frame.client()
    for (let i = 0; i < 30; i++) {
      client.send(request('POST', '/ojs/v1/jobs', bearer('producer')))
      await client.answer()
    }
    expect(lines(frame, 'request')).toHaveLength(1)
    expect(lines(frame, 'request refused')).toHaveLength(10)
    expect(lines(frame, 'request refused')[0]?.fields).toMatchObject({ status: 429 })
  })
})

test('the manifest names bearer_api_keys only with OJS_API_KEYS, and the request limit', async () => {
  const manifestOf = async (frame: Frame) =>
    JSON.parse((await frame.ask(request('GET', '/ojs/manifest'))).body)
  const open = await manifestOf(await openDoor())
  expect(open.extensions).not.toContain('bearer_api_keys')
  expect(open.capabilities.rate_limiting).toBe(true)
  const guarded = await openDoor(10_000, {
    access: { ...access, rateLimit: { limit: 10, windowMs: 60_000 } },
  })
  const named = await manifestOf(guarded)
  expect(named.extensions).toContain('bearer_api_keys')
  expect(named.extension_details.bearer_api_keys).toContain('Authorization: Bearer')
  expect(named.extension_details.request_limit).toContain('10 requests')
  expect(JSON.stringify(named)).not.toContain('the-admin')
})
