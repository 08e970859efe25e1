import { createHash } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { createStandbyService } from '../../src/http/standby.ts'
import type { StandbyFacts } from '../../src/operations/health.ts'
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
  })
  await door.start()
  onTestFinished(() => door.stop(AbortSignal.timeout(1_000)))
  return async (method: string, path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${door.url()}${path}`, { method, headers })
    // biome-ignore lint/suspicious/noExplicitAny: read as a client would, member by member
    const body: any = await response.json()
    assertDescribed({ method, path, status: response.status, body })
    return { status: response.status, headers: response.headers, body }
  }
}

it('is alive and not ready', async () => {
  const ask = await standby(ALIVE)
  for (const path of ['/livez', '/healthz'])
    expect(await ask('GET', path)).toMatchObject({ status: 200, body: { status: 'ok' } })
  for (const path of ['/readyz', '/ready'])
    expect(await ask('GET', path)).toMatchObject({ status: 503, body: { status: 'standby' } })
})

it('its health says who is active, or why that is not known', async () => {
  const ask = await standby(ALIVE)
  for (const path of ['/ojs/v1/health', '/health'])
    expect(await ask('GET', path)).toMatchObject({
      status: 503,
      body: { status: 'standby', active_url: ACTIVE, ledger: { status: 'writable' } },
    })
  const cutOff = await standby({ activeUrl: null, fault: 'no writable PostgreSQL: a:1: refused' })
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
  ['GET', '/metrics'],
  ['GET', '/console'],
])('answers %s %s with 503 and where to go', async (method, path) => {
  const ask = await standby(ALIVE)
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
  const ask = await standby(ALIVE, { OJS_API_KEYS: `app:operator:${hash}` })
  const known = { Authorization: 'Bearer secret' }
  for (const path of ['/ojs/v1/jobs/x', '/ojs/v1/health']) {
    expect(JSON.stringify((await ask('GET', path)).body)).not.toContain('gateway-1')
    expect(JSON.stringify((await ask('GET', path, known)).body)).toContain(ACTIVE)
  }
})
