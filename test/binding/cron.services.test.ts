import { describe, expect, it } from 'vitest'
import { gatewayForAll } from '../operations/harness.ts'
import { expectAsPrinted } from './printed.ts'

const { gateway } = gatewayForAll()

const CRON = '/ojs/v1/cron'
const invalid = { status: 400, body: { error: { code: 'invalid_request', retryable: false } } }

let count = 0
/** The cron entry that seed 001 §13.2 prints, with a new name. */
function printedCron(): { name: string; [member: string]: unknown } {
  count += 1
  return {
    name: `daily-report-${count}`,
    cron: '0 9 * * *',
    timezone: 'America/New_York',
    type: 'report.generate',
    args: ['daily_summary'],
    meta: { owner: 'analytics-team' },
    options: {
      queue: 'reports',
      timeout_ms: 300000,
      retry: {
        max_attempts: 3,
        initial_interval_ms: 5000,
        backoff_coefficient: 2.0,
        max_interval_ms: 60000,
        jitter: true,
      },
    },
  }
}

async function registered(): Promise<{ name: string }> {
  const entry = printedCron()
  expect((await gateway.request('POST', CRON, entry)).status).toBe(201)
  return entry
}

describe('GET /ojs/v1/cron', () => {
  it('200: as printed in §13.1', async () => {
    await registered()
    await registered()
    // None of them has run yet.
    const never = { 'cron_jobs.0.last_run_at': undefined, 'cron_jobs.1.last_run_at': undefined }
    expectAsPrinted(await gateway.request('GET', `${CRON}?limit=50&offset=0`), '13.1 200', never)
  })

  it('400 invalid_request: a limit that is no number', async () => {
    expect(await gateway.request('GET', `${CRON}?limit=x`)).toMatchObject(invalid)
  })
})

describe('POST /ojs/v1/cron', () => {
  it('201: as printed in §13.2', async () => {
    expectAsPrinted(await gateway.request('POST', CRON, printedCron()), '13.2 201')
  })

  it('400 invalid_request: an invalid cron expression', async () => {
    const entry = { ...printedCron(), cron: '61 9 * * *' }
    expect(await gateway.request('POST', CRON, entry)).toMatchObject(invalid)
  })

  it('400 schema_validation: args that do not match the registered schema', async () => {
    const schema = { uri: 'urn:ojs:schema:binding.cron:v1', type: 'report.generate', version: 1 }
    const draft = { $schema: 'https://json-schema.org/draft/2020-12/schema', maxItems: 0 }
    await gateway.request('POST', '/ojs/v1/schemas', { ...schema, schema: draft })
    const answer = await gateway.request('POST', CRON, { ...printedCron(), schema: schema.uri })
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'schema_validation' } } })
  })

  it('409 duplicate: a name that is taken', async () => {
    const { name } = await registered()
    expect(await gateway.request('POST', CRON, { ...printedCron(), name })).toMatchObject({
      status: 409,
      body: { error: { code: 'duplicate', retryable: false } },
    })
  })
})

describe('DELETE /ojs/v1/cron/:name', () => {
  it('200: as printed in §13.3', async () => {
    const { name } = await registered()
    expectAsPrinted(await gateway.request('DELETE', `${CRON}/${name}`), '13.3 200')
  })

  it('404 not_found: an unknown name', async () => {
    expect(await gateway.request('DELETE', `${CRON}/none`)).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found', retryable: false } },
    })
  })
})
