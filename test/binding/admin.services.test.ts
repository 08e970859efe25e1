import { describe, expect, it } from 'vitest'
import { freshQueue, gatewayForAll, nack, startJob } from '../operations/harness.ts'
import { expectAsPrinted } from './printed.ts'

const { gateway } = gatewayForAll()

const NONE = '019414d4-0000-7000-8000-000000000000'
const unknown = { status: 404, body: { error: { code: 'not_found', retryable: false } } }
const invalid = { status: 400, body: { error: { code: 'invalid_request', retryable: false } } }

const call = (method: string, path: string, body?: object) =>
  gateway.request(method, `/ojs/v1${path}`, body)

describe('GET /ojs/manifest', () => {
  it('200: as printed in §21', async () => {
    const answer = await gateway.request('GET', '/ojs/manifest')
    // Optional members (§21.2): we have no homepage, but extensions.
    const { extensions, capabilities } = answer.body
    expect(Array.isArray(extensions)).toBe(true)
    // Level 4 requires all capabilities (OJS conformance).
    expect(answer.body.conformance_level).toBe(4)
    expect(new Set(Object.values(capabilities))).toEqual(new Set([true]))
    expectAsPrinted(answer, '21.1 200', { 'implementation.homepage': undefined, extensions })
  })
})

describe('GET /ojs/v1/health', () => {
  it('200: as printed in §8.1', async () => {
    expectAsPrinted(await call('GET', '/health'), '8.1 200')
  })
})

describe('GET /ojs/v1/queues', () => {
  it('200: as printed in §11.1', async () => {
    await gateway.push(freshQueue())
    expectAsPrinted(await call('GET', '/queues'), '11.1 200')
  })

  it('400 invalid_request: a limit that is no number', async () => {
    expect(await call('GET', '/queues?limit=x')).toMatchObject(invalid)
  })
})

describe('GET /ojs/v1/queues/:name/stats', () => {
  it('200: as printed in §11.2', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    expectAsPrinted(await call('GET', `/queues/${queue}/stats`), '11.2 200')
  })

  it('404 not_found: an unknown queue', async () => {
    expect(await call('GET', '/queues/nobody/stats')).toMatchObject(unknown)
  })
})

describe('POST /ojs/v1/queues/:name/pause', () => {
  it('200: as printed in §11.3', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    expectAsPrinted(await call('POST', `/queues/${queue}/pause`), '11.3 200')
  })

  it('400 invalid_request: an invalid queue name', async () => {
    expect(await call('POST', '/queues/NO%20QUEUE/pause')).toMatchObject(invalid)
  })
})

describe('POST /ojs/v1/queues/:name/resume', () => {
  it('200: as printed in §11.4', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    await call('POST', `/queues/${queue}/pause`)
    expectAsPrinted(await call('POST', `/queues/${queue}/resume`), '11.4 200')
  })

  it('400 invalid_request: an invalid queue name', async () => {
    expect(await call('POST', '/queues/NO%20QUEUE/resume')).toMatchObject(invalid)
  })
})

async function deadLetter(queue: string): Promise<string> {
  const job = await startJob(gateway, queue, {
    retry: { max_attempts: 1, on_exhaustion: 'dead_letter' },
  })
  await nack(gateway, job.id)
  return job.id
}

describe('GET /ojs/v1/dead-letter', () => {
  it('200: as printed in §12.1', async () => {
    const queue = freshQueue()
    await deadLetter(queue)
    const answer = await call('GET', `/dead-letter?queue=${queue}&limit=10&offset=0`)
    expectAsPrinted(answer, '12.1 200', { 'jobs.0.attempt': 1 })
  })

  it('200: a page, as printed in §17.2', async () => {
    const queue = freshQueue()
    for (let i = 0; i < 3; i++) await deadLetter(queue)
    const answer = await call('GET', `/dead-letter?queue=${queue}&limit=1&offset=1`)
    expectAsPrinted(answer, '17.2 200', { 'jobs.0.attempt': 1 })
    expect(answer.body.pagination).toMatchObject({ total: 3, limit: 1, offset: 1, has_more: true })
  })

  it('200: an empty page of limit 0, which says whether there are any', async () => {
    const queue = freshQueue()
    const page = async () => (await call('GET', `/dead-letter?queue=${queue}&limit=0`)).body
    const none = { jobs: [], pagination: { total: 0, limit: 0, offset: 0, has_more: false } }
    expect(await page()).toEqual(none)
    await deadLetter(queue)
    expect(await page()).toEqual({
      ...none,
      pagination: { ...none.pagination, total: 1, has_more: true },
    })
    for (const list of ['/queues', '/cron', '/workflows', '/schemas', '/admin/workers']) {
      const { status, body } = await call('GET', `${list}?limit=0`)
      expect([list, status, body.pagination.limit]).toEqual([list, 200, 0])
      const items = Object.values(body).find(Array.isArray)
      expect(items, list).toEqual([])
      expect(body.pagination.has_more, list).toBe(body.pagination.total > 0)
    }
    const events = (await call('GET', '/events?limit=0')).body
    expect(events).toEqual({ events: [], cursor: null, has_more: true, gap: false })
  })

  it('400 invalid_request: an offset that is no number', async () => {
    expect(await call('GET', '/dead-letter?offset=-1')).toMatchObject(invalid)
  })
})

describe('POST /ojs/v1/dead-letter/:id/retry', () => {
  it('200: as printed in §12.2', async () => {
    const id = await deadLetter(freshQueue())
    expectAsPrinted(await call('POST', `/dead-letter/${id}/retry`), '12.2 200')
  })

  it('404 not_found: a job that is no dead letter', async () => {
    expectAsPrinted(await call('POST', `/dead-letter/${NONE}/retry`), '12.3 404')
  })

  it('400 invalid_request: a member of override that cannot be changed; the job stays a dead letter', async () => {
    const id = await deadLetter(freshQueue())
    const refused = await call('POST', `/dead-letter/${id}/retry`, { override: { state: 'x' } })
    expect(refused).toMatchObject(invalid)
    expect((await call('GET', `/jobs/${id}`)).body.state).toBe('discarded')
  })
})

describe('DELETE /ojs/v1/dead-letter/:id', () => {
  it('200: as printed in §12.3', async () => {
    const id = await deadLetter(freshQueue())
    expectAsPrinted(await call('DELETE', `/dead-letter/${id}`), '12.3 200')
  })

  it('404 not_found: as printed in §12.3', async () => {
    expectAsPrinted(await call('DELETE', `/dead-letter/${NONE}`), '12.3 404')
  })
})
