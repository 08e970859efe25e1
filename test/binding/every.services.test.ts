import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { APPENDIX_A, type Endpoint } from '../http/endpoints.ts'
import { gatewayForAll } from '../operations/harness.ts'
import { createVhost } from '../support/broker/rabbit.ts'
import {
  type Answer,
  eventually,
  startTestGateway,
  type TestGateway,
} from '../support/gateway/in-process.ts'
import { expectAsPrinted } from './printed.ts'

// Tests that run for every endpoint of seed 001, Appendix A.

const ROLES = ['producer', 'worker', 'operator', 'admin'] as const
const hash = (key: string) => createHash('sha256').update(key).digest('hex')
const OJS_API_KEYS = ROLES.map((role) => `${role}:${role}:${hash(`key-${role}`)}`).join()

const { gateway: open } = gatewayForAll({ OJS_RATE_LIMIT: '100000/3600s' })
const { gateway: locked } = gatewayForAll({ OJS_API_KEYS })
const { gateway: limited } = gatewayForAll({ OJS_RATE_LIMIT: '1/3600s' })

const OPEN_TO_ALL: readonly Endpoint[] = ['GET /ojs/manifest', 'GET /ojs/v1/health']
const PROTECTED = APPENDIX_A.filter((endpoint) => !OPEN_TO_ALL.includes(endpoint))
/** All but the endpoint that every role may use. */
const RESTRICTED = PROTECTED.filter((endpoint) => endpoint !== 'GET /ojs/v1/jobs/:id')
const COUNTED = APPENDIX_A.filter((endpoint) => endpoint !== 'GET /ojs/v1/health')
const POSTS = APPENDIX_A.filter((endpoint) => endpoint.startsWith('POST '))

/** Sends a request to the endpoint, with an unknown name for `:id` and the like. */
/** Whether a request about a lease counts is known only once the lease is looked for. */
const NO_LEASE = {
  job_id: '01900000-0000-7000-8000-000000000000',
  worker_id: 'w',
  error: { code: 'e', message: 'm' },
}

function ask(gateway: TestGateway, endpoint: Endpoint, headers: object = {}): Promise<Answer> {
  const [method = '', path = ''] = endpoint.split(' ')
  const body = method === 'POST' ? NO_LEASE : undefined
  return gateway.request(method, path.replace(/:\w+/, 'nobody'), body, headers)
}

async function send(endpoint: Endpoint, body: string, contentType: string): Promise<Answer> {
  const [method = '', path = ''] = endpoint.split(' ')
  const response = await fetch(`${open.url}${path.replace(/:\w+/, 'nobody')}`, {
    method,
    body,
    headers: { 'Content-Type': contentType },
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

describe('every endpoint', () => {
  it.each(APPENDIX_A)(
    '422 unsupported: an OJS-Version that is not supported, %s',
    async (endpoint) => {
      expect(await ask(open, endpoint, { 'OJS-Version': '9.9' })).toMatchObject({
        status: 422,
        body: { error: { code: 'unsupported', retryable: false } },
      })
    },
  )

  it.each(APPENDIX_A)(
    'any: has the X-Request-Id of the client or a new one, OJS-Version and media type, %s',
    async (endpoint) => {
      const given = await ask(open, endpoint, { 'X-Request-Id': 'my-own' })
      expect(given.headers.get('X-Request-Id')).toBe('my-own')
      const { headers } = await ask(open, endpoint)
      expect(headers.get('X-Request-Id')).toMatch(/^req_[0-9a-f-]{36}$/)
      expect(headers.get('OJS-Version')).toBe('1.0')
      expect(headers.get('Content-Type')).toBe('application/openjobspec+json')
    },
  )

  it.each(PROTECTED)('401 x_unauthenticated: no key, %s', async (endpoint) => {
    const answer = await ask(locked, endpoint)
    expect(answer).toMatchObject({
      status: 401,
      body: { error: { code: 'x_unauthenticated', retryable: false } },
    })
    expect(answer.headers.get('WWW-Authenticate')).toMatch(/^Bearer/)
  })

  it.each(RESTRICTED)('403 x_forbidden: a key of a role without access, %s', async (endpoint) => {
    const answers = await Promise.all(
      ROLES.map((role) => ask(locked, endpoint, { Authorization: `Bearer key-${role}` })),
    )
    const refused = answers.filter(({ status }) => status === 403)
    expect(refused.length).toBeGreaterThan(0)
    for (const { body } of refused) expect(body.error.code).toBe('x_forbidden')
    expect(answers.at(-1)?.status).not.toBe(403)
  })

  it.each(OPEN_TO_ALL)('200: no key is needed, %s', async (endpoint) => {
    expect((await ask(locked, endpoint)).status).toBe(200)
  })

  it.each(COUNTED)('429 rate_limited: as printed in §18.2, %s', async (endpoint) => {
    // The first of these requests uses up the limit of one request.
    await ask(limited, 'GET /ojs/manifest')
    expectAsPrinted(await ask(limited, endpoint), '18.2 429')
  })

  it.each(POSTS)('400 invalid_payload: a body that is no JSON, %s', async (endpoint) => {
    expect(await send(endpoint, '{"type":', 'application/json')).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_payload', retryable: false } },
    })
  })

  it.each(POSTS)('400 invalid_request: a wrong Content-Type, %s', async (endpoint) => {
    expect(await send(endpoint, '{}', 'text/plain')).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_request', retryable: false } },
    })
  })
})

let cutOff: TestGateway
beforeAll(async () => {
  const vhost = await createVhost()
  cutOff = await startTestGateway(vhost.url)
  await vhost.drop()
  await eventually(async () => (await ask(cutOff, 'GET /ojs/v1/health')).status === 503)
})
afterAll(() => cutOff.destroy())

describe('GET /ojs/v1/health', () => {
  it('503: RabbitMQ is away, as printed in §8.1', async () => {
    expectAsPrinted(await ask(cutOff, 'GET /ojs/v1/health'), '8.1 503')
  })
})

async function expectAway(path: string, body: object): Promise<void> {
  const answer = await cutOff.request('POST', path, body)
  expect(answer).toMatchObject({
    status: 503,
    body: { error: { code: 'backend_error', retryable: true } },
  })
  expect(answer.headers.get('Retry-After')).toBe('1')
}

const job = { type: 'email.send', args: ['user@example.com'], options: { queue: 'email' } }

describe('POST /ojs/v1/jobs', () => {
  it('201: with the headers of the request limit, as printed in §18.3', async () => {
    expectAsPrinted(await open.request('POST', '/ojs/v1/jobs', job), '18.3 201')
  })

  it('503 backend_error: RabbitMQ is away', () => expectAway('/ojs/v1/jobs', job))
})

describe('POST /ojs/v1/jobs/batch', () => {
  it('503 backend_error: RabbitMQ is away', () => expectAway('/ojs/v1/jobs/batch', { jobs: [job] }))
})

describe('POST /ojs/v1/workers/fetch', () => {
  it('503 backend_error: RabbitMQ is away', () =>
    expectAway('/ojs/v1/workers/fetch', { queues: ['email'] }))
})
