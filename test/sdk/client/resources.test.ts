import { describe, expect, test } from 'vitest'
import {
  type CallOptions,
  chain,
  OJSClient,
  OJSNotFoundError,
  OJSTransportError,
} from '../../../src/sdk/index.ts'
import { mockTransport } from '../mock-transport.ts'

const PAGE = { total: 1, limit: 50, offset: 0, has_more: false }

interface Case {
  what: string
  call: (client: OJSClient) => Promise<unknown>
  sent: object
  body: object
  result: unknown
}

const CRON = { name: 'daily', cron: '0 9 * * *', type: 't', args: [] }
const SCHEMA = { uri: 'urn:ojs:schema:t:v1', type: 't', version: 1, schema: { type: 'array' } }

const CASES: Case[] = [
  {
    what: 'queues.list',
    call: ({ queues }) => queues.list(),
    sent: { method: 'GET', path: '/queues' },
    body: { queues: [{ name: 'default', status: 'active' }], pagination: PAGE },
    result: { queues: [{ name: 'default', status: 'active' }], pagination: PAGE },
  },
  {
    what: 'queues.list with limit and offset',
    call: ({ queues }) => queues.list({ limit: 10, offset: 20 }),
    sent: { method: 'GET', path: '/queues?limit=10&offset=20' },
    body: { queues: [], pagination: PAGE },
    result: { queues: [], pagination: PAGE },
  },
  {
    what: 'queues.stats',
    call: ({ queues }) => queues.stats('a b'),
    sent: { method: 'GET', path: '/queues/a%20b/stats' },
    body: { queue: 'a b', status: 'active', stats: { available: 1 } },
    result: { queue: 'a b', status: 'active', stats: { available: 1 } },
  },
  {
    what: 'queues.pause',
    call: ({ queues }) => queues.pause('email'),
    sent: { method: 'POST', path: '/queues/email/pause', body: {}, idempotent: true },
    body: { queue: 'email', status: 'paused' },
    result: { queue: 'email', status: 'paused' },
  },
  {
    what: 'queues.resume',
    call: ({ queues }) => queues.resume('email'),
    sent: { method: 'POST', path: '/queues/email/resume', body: {}, idempotent: true },
    body: { queue: 'email', status: 'active' },
    result: { queue: 'email', status: 'active' },
  },
  {
    what: 'deadLetters.list',
    call: ({ deadLetters }) => deadLetters.list({ queue: 'email', limit: 5 }),
    sent: { method: 'GET', path: '/dead-letter?queue=email&limit=5' },
    body: { jobs: [{ id: '1' }], pagination: PAGE },
    result: { jobs: [{ id: '1' }], pagination: PAGE },
  },
  {
    what: 'deadLetters.list without a queue',
    call: ({ deadLetters }) => deadLetters.list({ queue: undefined }),
    sent: { method: 'GET', path: '/dead-letter' },
    body: { jobs: [], pagination: PAGE },
    result: { jobs: [], pagination: PAGE },
  },
  {
    what: 'deadLetters.retry',
    call: ({ deadLetters }) => deadLetters.retry('1'),
    sent: { method: 'POST', path: '/dead-letter/1/retry', body: {} },
    body: { job: { id: '1', state: 'available' } },
    result: { id: '1', state: 'available' },
  },
  {
    what: 'deadLetters.delete',
    call: ({ deadLetters }) => deadLetters.delete('1'),
    sent: { method: 'DELETE', path: '/dead-letter/1', idempotent: true },
    body: { deleted: true, job_id: '1' },
    result: { deleted: true, job_id: '1' },
  },
  {
    what: 'cron.list',
    call: ({ cron }) => cron.list(),
    sent: { method: 'GET', path: '/cron' },
    body: { cron_jobs: [CRON], pagination: PAGE },
    result: { cron_jobs: [CRON], pagination: PAGE },
  },
  {
    what: 'cron.register',
    call: ({ cron }) =>
      cron.register({ ...CRON, args: { x: 1 }, timezone: 'UTC', options: { timeoutMs: 5 } }),
    sent: {
      method: 'POST',
      path: '/cron',
      body: { ...CRON, args: [{ x: 1 }], timezone: 'UTC', options: { timeout_ms: 5 } },
    },
    body: { cron_job: CRON },
    result: CRON,
  },
  {
    what: 'cron.register with every member of an entry',
    call: ({ cron }) =>
      cron.register({
        ...CRON,
        overlapPolicy: 'cancel_previous',
        enabled: false,
        description: 'd',
      }),
    sent: {
      method: 'POST',
      path: '/cron',
      body: { ...CRON, overlap_policy: 'cancel_previous', enabled: false, description: 'd' },
    },
    body: { cron_job: CRON },
    result: CRON,
  },
  {
    what: 'cron.register in the place of another entry',
    call: ({ cron }) => cron.register({ ...CRON, replace: true }),
    sent: { method: 'POST', path: '/cron?replace=true', body: CRON },
    body: { cron_job: CRON },
    result: CRON,
  },
  {
    what: 'cron.get',
    call: ({ cron }) => cron.get('daily'),
    sent: { method: 'GET', path: '/cron/daily' },
    body: { cron_job: CRON },
    result: CRON,
  },
  {
    what: 'cron.delete',
    call: ({ cron }) => cron.delete('daily'),
    sent: { method: 'DELETE', path: '/cron/daily', idempotent: true },
    body: { deleted: true, name: 'daily' },
    result: { deleted: true, name: 'daily' },
  },
  {
    what: 'schemas.list',
    call: ({ schemas }) => schemas.list({ limit: 1 }),
    sent: { method: 'GET', path: '/schemas?limit=1' },
    body: { schemas: [SCHEMA], pagination: PAGE },
    result: { schemas: [SCHEMA], pagination: PAGE },
  },
  {
    what: 'schemas.register',
    call: ({ schemas }) => schemas.register(SCHEMA),
    sent: { method: 'POST', path: '/schemas', body: SCHEMA },
    body: { schema: SCHEMA },
    result: SCHEMA,
  },
  {
    what: 'schemas.get',
    call: ({ schemas }) => schemas.get(SCHEMA.uri),
    sent: { method: 'GET', path: '/schemas/urn%3Aojs%3Aschema%3At%3Av1' },
    body: { schema: SCHEMA },
    result: SCHEMA,
  },
  {
    what: 'schemas.delete',
    call: ({ schemas }) => schemas.delete(SCHEMA.uri),
    sent: { method: 'DELETE', path: '/schemas/urn%3Aojs%3Aschema%3At%3Av1', idempotent: true },
    body: { deleted: true, uri: SCHEMA.uri },
    result: { deleted: true, uri: SCHEMA.uri },
  },
  {
    what: 'workers.list',
    call: ({ workers }) => workers.list(),
    sent: { method: 'GET', path: '/admin/workers' },
    body: { items: [{ id: 'w' }], pagination: PAGE },
    result: { items: [{ id: 'w' }], pagination: PAGE },
  },
  {
    what: 'workers.quiet',
    call: ({ workers }) => workers.quiet('*'),
    sent: { method: 'POST', path: '/admin/workers/*/quiet', body: {}, idempotent: true },
    body: { workers: 2 },
    result: { workers: 2 },
  },
  {
    what: 'workers.terminate',
    call: ({ workers }) => workers.terminate('w 1'),
    sent: { method: 'POST', path: '/admin/workers/w%201/terminate', body: {}, idempotent: true },
    body: { worker: { id: 'w 1' } },
    result: { worker: { id: 'w 1' } },
  },
  {
    what: 'manifest',
    call: (client) => client.manifest(),
    sent: { method: 'GET', path: '/ojs/manifest' },
    body: { ojs_version: '1.0' },
    result: { ojs_version: '1.0' },
  },
  {
    what: 'workflows.list',
    call: ({ workflows }) => workflows.list({ state: 'running', limit: 5 }),
    sent: { method: 'GET', path: '/workflows?state=running&limit=5' },
    body: { workflows: [{ id: 'w', state: 'running' }], pagination: PAGE },
    result: { workflows: [{ id: 'w', state: 'running' }], pagination: PAGE },
  },
  {
    what: 'health',
    call: (client) => client.health(),
    sent: { method: 'GET', path: '/health', accept: [503] },
    body: { status: 'ok' },
    result: { status: 'ok' },
  },
]

describe.each(CASES)('$what', ({ call, sent, body, result }) => {
  test("sends the binding's request and returns the server's answer", async () => {
    const transport = mockTransport([{ status: 200, body }])
    expect(await call(new OJSClient({ transport }))).toEqual(result)
    expect(transport.only).toEqual(sent)
  })

  test('rejects with OJSNotFoundError when the server answers 404 not_found', async () => {
    const error = { code: 'not_found', message: 'no such thing' }
    const transport = mockTransport([{ status: 404, body: { error } }])
    await expect(call(new OJSClient({ transport }))).rejects.toBeInstanceOf(OJSNotFoundError)
  })

  test('rejects an answer that is not OJS with OJSTransportError', async () => {
    const transport = mockTransport([{ status: 200, body: 'hello' }])
    await expect(call(new OJSClient({ transport }))).rejects.toBeInstanceOf(OJSTransportError)
  })
})

test.each<[string, (client: OJSClient, call: CallOptions) => Promise<unknown>]>([
  ['queues.list', ({ queues }, call) => queues.list({}, call)],
  ['queues.stats', ({ queues }, call) => queues.stats('q', call)],
  ['queues.pause', ({ queues }, call) => queues.pause('q', call)],
  ['queues.resume', ({ queues }, call) => queues.resume('q', call)],
  ['deadLetters.list', ({ deadLetters }, call) => deadLetters.list({}, call)],
  ['deadLetters.retry', ({ deadLetters }, call) => deadLetters.retry('1', call)],
  ['deadLetters.delete', ({ deadLetters }, call) => deadLetters.delete('1', call)],
  ['cron.list', ({ cron }, call) => cron.list({}, call)],
  ['cron.register', ({ cron }, call) => cron.register(CRON, call)],
  ['cron.get', ({ cron }, call) => cron.get('c', call)],
  ['cron.delete', ({ cron }, call) => cron.delete('c', call)],
  ['schemas.list', ({ schemas }, call) => schemas.list({}, call)],
  ['schemas.register', ({ schemas }, call) => schemas.register(SCHEMA, call)],
  ['schemas.get', ({ schemas }, call) => schemas.get('u', call)],
  ['schemas.delete', ({ schemas }, call) => schemas.delete('u', call)],
  ['workers.list', ({ workers }, call) => workers.list({}, call)],
  ['workers.quiet', ({ workers }, call) => workers.quiet('w', call)],
  ['workers.terminate', ({ workers }, call) => workers.terminate('w', call)],
  ['workflow', (client, call) => client.workflow(chain({ type: 'a' }), call)],
  ['workflows.create', ({ workflows }, call) => workflows.create(chain({ type: 'a' }), call)],
  ['workflows.list', ({ workflows }, call) => workflows.list({}, call)],
  ['workflows.get', ({ workflows }, call) => workflows.get('w', call)],
  ['workflows.cancel', ({ workflows }, call) => workflows.cancel('w', call)],
])('%s passes signal, timeout and headers to the transport', async (_what, send) => {
  const options = { signal: AbortSignal.timeout(60_000), timeout: 7, headers: { 'x-own': '1' } }
  const transport = mockTransport(() => new Error('enough'))
  await expect(send(new OJSClient({ transport }), options)).rejects.toThrow('enough')
  expect(transport.only).toMatchObject(options)
})

test('an answer without the expected member rejects, and the message names the request', async () => {
  const client = new OJSClient({ transport: mockTransport(() => ({ status: 200, body: {} })) })
  await expect(client.getJob('1')).rejects.toMatchObject({
    kind: 'protocol',
    status: 200,
    message: 'GET /jobs/1: the answer with status 200 lacks "job".',
  })
  await expect(client.queues.list()).rejects.toThrow('GET /queues: the answer with status 200')
})

test('health() resolves when the server answers 503', async () => {
  const transport = mockTransport([{ status: 503, body: { status: 'degraded' } }])
  expect(await new OJSClient({ transport }).health()).toEqual({ status: 'degraded' })
})

test('cron.delete resolves on a 404 of a repeated try, because an earlier try deleted the entry', async () => {
  const gone = (attempts: number) =>
    new OJSNotFoundError({ code: 'not_found', message: 'no', attempts })
  const repeated = new OJSClient({ transport: mockTransport(() => gone(2)) })
  expect(await repeated.cron.delete('a')).toEqual({ deleted: true, name: 'a' })
  const first = new OJSClient({ transport: mockTransport(() => gone(1)) })
  await expect(first.cron.delete('a')).rejects.toBeInstanceOf(OJSNotFoundError)
})

test.each<[string, (client: OJSClient) => Promise<unknown>]>([
  ['queues.stats without a name', ({ queues }) => queues.stats('')],
  ['cron.delete without a name', ({ cron }) => cron.delete('')],
  ['deadLetters.delete without a name', ({ deadLetters }) => deadLetters.delete('')],
  ['workers.quiet without a name', ({ workers }) => workers.quiet('')],
  ['queues.pause with a dot', ({ queues }) => queues.pause('.')],
  ['cron.delete with two dots', ({ cron }) => cron.delete('..')],
  ['getJob with two dots', (client) => client.getJob('..')],
])(
  '%s throws without a request, because the path would name another resource',
  async (_what, call) => {
    const transport = mockTransport([])
    await expect(call(new OJSClient({ transport }))).rejects.toThrow(TypeError)
    expect(transport.requests).toEqual([])
  },
)

test('cron.register takes overlap_policy or overlapPolicy, but refuses both', async () => {
  const transport = mockTransport(() => ({ status: 201, body: { cron_job: CRON } }))
  const { cron } = new OJSClient({ transport })
  const spec = { name: 'daily', cron: '@daily', type: 't', meta: { m: 1 } }
  await cron.register({ ...spec, overlap_policy: 'allow' })
  expect(transport.only.body).toEqual({ ...spec, args: [], overlap_policy: 'allow' })
  const both = cron.register({ ...spec, overlap_policy: 'allow', overlapPolicy: 'skip' })
  await expect(both).rejects.toThrow(/'overlap_policy' is given in two spellings/)
})
