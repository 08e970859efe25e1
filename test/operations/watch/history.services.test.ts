import { expect, test } from 'vitest'
import { gatewayForAll } from '../harness.ts'

const { gateway } = gatewayForAll()

const ask = (method: string, path: string, body?: unknown, id = 'r') =>
  gateway.request(method, `/ojs/v1${path}`, body, { 'X-Request-Id': id })

/** A job that failed once and completed then. */
async function retriedJob(queue: string): Promise<string> {
  const options = { queue, retry: { max_attempts: 2, initial_interval: 'PT0.125S' } }
  const pushed = await ask('POST', '/jobs', { type: 'a', args: ['é'], options }, 'r-push')
  const { id } = pushed.body.job
  for (const verb of ['nack', 'ack']) {
    const fetch = { queues: [queue], worker_id: 'w-1', wait_ms: 20_000 }
    const fetched = await ask('POST', '/workers/fetch', fetch, `r-fetch-${verb}`)
    expect(fetched.body.jobs[0]?.id).toBe(id)
    const error = { code: 'no_glyph', message: 'no glyph' }
    await ask('POST', `/workers/${verb}`, { job_id: id, worker_id: 'w-1', error }, `r-${verb}`)
  }
  return id
}

test('GET /jobs/:id/history tells every change, who made it and by which request', async () => {
  const id = await retriedJob('history')
  const { status, body } = await ask('GET', `/jobs/${id}/history`)
  expect(status).toBe(200)
  expect(body.total).toBe(body.events.length)
  expect(body).toMatchObject({ next_cursor: null, pagination: { has_more: false, limit: 50 } })
  const told = body.events.map((event: Record<string, never>) => {
    const {
      event_type: type,
      data,
      metadata,
    } = event as never as {
      event_type: string
      data: { to?: string }
      metadata?: { request_id: string }
    }
    return [type, data.to, metadata?.request_id].filter(Boolean).join(' ')
  })
  // Depends on who is faster, the promoter or the message of the retry.
  expect(told.filter((text: string) => text !== 'job.state_changed available')).toEqual([
    'job.created r-push',
    'job.state_changed active r-fetch-nack',
    'job.attempt_started r-fetch-nack',
    'job.state_changed retryable r-nack',
    'job.attempt_failed r-nack',
    'job.state_changed active r-fetch-ack',
    'job.attempt_started r-fetch-ack',
    'job.state_changed completed r-ack',
    'job.attempt_completed r-ack',
  ])
  const failed = body.events[4]
  expect(failed).toMatchObject({
    job_id: id,
    data: { attempt: 1, error: 'no glyph', error_code: 'no_glyph', will_retry: true },
  })
  expect(body.events[0].data).toMatchObject({ queue: 'history', type: 'a', args_size_bytes: 6 })
  expect(body.events[2].actor).toEqual({ type: 'worker', id: 'w-1' })
  expect(new Set(body.events.map((event: { id: string }) => event.id)).size).toBe(body.total)
})

test('pages follow each other by cursor, and a wrong cursor is refused', async () => {
  const id = await retriedJob('history-pages')
  const all = (await ask('GET', `/jobs/${id}/history`)).body.events
  const paged = []
  let cursor = ''
  do {
    const { body } = await ask('GET', `/jobs/${id}/history?limit=3&cursor=${cursor}`)
    paged.push(...body.events)
    cursor = body.next_cursor ?? ''
  } while (cursor !== '')
  expect(paged).toEqual(all)
  const middle = (await ask('GET', `/jobs/${id}/history?offset=2&limit=2`)).body
  expect(middle).toMatchObject({ events: all.slice(2, 4), pagination: { offset: 2, limit: 2 } })
  for (const [query, field] of [
    ['cursor=abc', 'cursor'],
    ['cursor=abc&offset=1', 'offset'],
    ['limit=x', 'limit'],
  ]) {
    const { status, body } = await ask('GET', `/jobs/${id}/history?${query}`)
    expect({ status, field: body.error.details.field }).toEqual({ status: 400, field })
  }
})

test('GET /jobs/:id/retries lists the failed attempts', async () => {
  const id = await retriedJob('history-retries')
  const { body } = await ask('GET', `/jobs/${id}/retries`)
  expect(body).toMatchObject({
    job_id: id,
    retries: [{ attempt: 1, state: 'retryable', error: 'no glyph' }],
    policy: { max_attempts: 2 },
  })
})

test('DELETE /jobs/:id/history forgets it; an unknown job is a 404', async () => {
  const id = await retriedJob('history-deleted')
  const { body } = await ask('DELETE', `/jobs/${id}/history`)
  expect(body).toMatchObject({ deleted: true, job_id: id })
  expect(body.events_deleted).toBeGreaterThan(8)
  expect((await ask('GET', `/jobs/${id}/history`)).body).toMatchObject({
    events: [],
    total: 0,
    truncated: true,
  })
  const unknown = '/jobs/0197a1c2-77d0-7aa1-9d55-0c1f5e6b2a60'
  for (const [method, path] of [
    ['GET', `${unknown}/history`],
    ['GET', `${unknown}/retries`],
    ['DELETE', `${unknown}/history`],
  ] as const) {
    expect((await ask(method, path)).status).toBe(404)
  }
})
