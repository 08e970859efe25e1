import { createHash } from 'node:crypto'
import { get } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { createStandbyService } from '../../src/http/standby.ts'
import type { StandbyFacts } from '../../src/operations/health.ts'
import { standbyMetrics } from '../../src/telemetry/standby-metrics.ts'
import { assertDescribed } from '../support/checker/answers.ts'
import { SILENT } from '../support/time/silent.ts'

const ACTIVE = 'http://gateway-1.internal:8080'
const ALIVE: StandbyFacts = { activeUrl: ACTIVE, fault: null }

async function standby(facts: StandbyFacts, env: Record<string, string> = {}) {
  const { config } = readConfig({ OJS_PORT: '0', ...env })
  const { access } = config
  const door = createStandbyService({
    ...{ host: '127.0.0.1', port: 0, access, logger: SILENT, now: () => 1_000 },
    facts: () => facts,
    metrics: standbyMetrics({ version: '1.2.3', isLedgerReachable: () => facts.fault === null }),
  })
  await door.start()
  onTestFinished(() => door.stop(AbortSignal.timeout(1_000)))
  const ask = async (method: string, path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${door.url()}${path}`, { method, headers })
    const isText = response.headers.get('content-type')?.startsWith('text/')
    // biome-ignore lint/suspicious/noExplicitAny: read as a client would, member by member
    const body: any = await (isText ? response.text() : response.json())
    assertDescribed({ method, path, status: response.status, body })
    return { status: response.status, headers: response.headers, body }
  }
  return { ask, url: door.url() }
}

it('is alive and not ready', async () => {
  const { ask } = await standby(ALIVE)
  for (const path of ['/livez', '/healthz'])
    expect(await ask('GET', path)).toMatchObject({ status: 200, body: { status: 'ok' } })
  for (const path of ['/readyz', '/ready'])
    expect(await ask('GET', path)).toMatchObject({ status: 503, body: { status: 'standby' } })
})

it('its health says who is active, or why that is not known', async () => {
  const { ask } = await standby(ALIVE)
  for (const path of ['/ojs/v1/health', '/health'])
    expect(await ask('GET', path)).toMatchObject({
      status: 503,
      body: { status: 'standby', active_url: ACTIVE, ledger: { status: 'writable' } },
    })
  const { ask: cutOff } = await standby({
    activeUrl: null,
    fault: 'no writable PostgreSQL: a:1: refused',
  })
  const { body } = await cutOff('GET', '/ojs/v1/health')
  expect(body.ledger).toEqual({
    type: 'postgres',
    status: 'failing',
    error: 'no writable PostgreSQL: a:1: refused',
  })
  expect(body).not.toHaveProperty('active_url')
})

it.each([
  ['POST', '/ojs/v1/jobs'],
  ['POST', '/ojs/v1/workers/ack'],
  ['GET', '/ojs/v1/jobs/x'],
  ['GET', '/ojs/manifest'],
  ['GET', '/console'],
])('answers %s %s with 503 and where to go', async (method, path) => {
  const { ask } = await standby(ALIVE)
  const { status, headers, body } = await ask(method, path)
  expect(status).toBe(503)
  expect(headers.get('retry-after')).toBe('1')
  expect(body.error).toMatchObject({
    code: 'backend_error',
    retryable: true,
    details: { reason: 'standby', active_url: ACTIVE },
  })
  expect(body.error.message).toContain(ACTIVE)
})

it('tells strangers no address', async () => {
  const hash = createHash('sha256').update('secret').digest('hex')
  const { ask } = await standby(ALIVE, { OJS_API_KEYS: `app:operator:${hash}` })
  const known = { Authorization: 'Bearer secret' }
  for (const path of ['/ojs/v1/jobs/x', '/ojs/v1/health']) {
    expect(JSON.stringify((await ask('GET', path)).body)).not.toContain('gateway-1')
    expect(JSON.stringify((await ask('GET', path, known)).body)).toContain(ACTIVE)
  }
})

describe('its metrics', () => {
  const PATHS = ['/metrics', '/ojs/v1/metrics']
  const hash = createHash('sha256').update('secret').digest('hex')
  const known = { Authorization: 'Bearer secret' }

  it.each(PATHS)(
    '%s: its process and its role, and nothing of what the active one has',
    async (path) => {
      const { ask } = await standby(ALIVE)
      const { status, headers, body } = await ask('GET', path)
      expect(status).toBe(200)
      expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
      expect(body).toMatch(/^process_cpu_seconds_total /m)
      expect(body).toMatch(/^nodejs_eventloop_lag_seconds /m)
      expect(body.match(/^ojs_.*/gm)).toEqual([
        'ojs_build_info{version="1.2.3"} 1',
        'ojs_standby 1',
        'ojs_standby_ledger_reachable 1',
      ])
    },
  )

  it('tell that it could not take over', async () => {
    const { ask } = await standby({
      activeUrl: null,
      fault: 'no writable PostgreSQL: a:1: refused',
    })
    const { body } = await ask('GET', '/metrics')
    expect(body).toMatch(/^ojs_standby 1$/m)
    expect(body).toMatch(/^ojs_standby_ledger_reachable 0$/m)
  })

  it.each([
    ['reader', 200],
    ['operator', 200],
    ['admin', 200],
    ['producer', 403],
    ['worker', 403],
  ])('with keys, are answered as those of the active one: %s %i', async (role, wanted) => {
    const { ask } = await standby(ALIVE, { OJS_API_KEYS: `app:${role}:${hash}` })
    for (const path of PATHS) {
      expect(await ask('GET', path, known)).toMatchObject({ status: wanted })
      expect(await ask('GET', path)).toMatchObject({ status: 401 })
    }
  })

  it('are not for keys of some queues', async () => {
    const { ask } = await standby(ALIVE, { OJS_API_KEYS: `app:reader:${hash}:queues=email` })
    expect(await ask('GET', '/metrics', known)).toMatchObject({
      status: 403,
      body: { error: { details: { reason: 'queue_scope' } } },
    })
  })

  it('are not for pages of other sites', async () => {
    const { url } = await standby(ALIVE)
    const asked = (headers: Record<string, string>) =>
      new Promise((resolve, reject) => {
        // `fetch` sends a Host of its own.
        get(`${url}/metrics`, { headers }, (response) =>
          resolve(response.resume().statusCode),
        ).once('error', reject)
      })
    expect(await asked({ Host: 'localhost' })).toBe(200)
    expect(await asked({ Host: 'evil.example' })).toBe(403)
  })

  it('cannot be written', async () => {
    const { ask } = await standby(ALIVE)
    expect(await ask('POST', '/metrics')).toMatchObject({ status: 405 })
  })
})
