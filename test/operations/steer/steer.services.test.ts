import { beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { ack, fetchOne, freshQueue, gatewayForAll, nack, stateOf } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const { gateway } = gatewayForAll()
let queue = ''
beforeEach(() => {
  queue = freshQueue()
})

const ask = async (method: string, path: string, body?: object): Promise<[number, Json]> => {
  const answer = await gateway.request(method, `/ojs/v1${path}`, body)
  return [answer.status, answer.body]
}
const push = async (over: object = {}, more: object = {}): Promise<string> => {
  const job = { type: 'mail.send', args: [{ to: 'ada' }], options: { queue, ...over }, ...more }
  const [status, body] = await ask('POST', '/jobs', job)
  expect(status, JSON.stringify(body)).toBe(201)
  return body.job.id
}
const DIES = { retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } }
const bury = async (over: object = {}, error: object = { code: 'smtp' }): Promise<string> => {
  const id = await push({ ...DIES, ...over })
  await fetchOne(gateway, queue)
  expect((await nack(gateway, id, error)).status).toBe(200)
  return id
}
const completed = async (): Promise<string> => {
  const id = await push()
  await fetchOne(gateway, queue)
  expect((await ack(gateway, id)).status).toBe(200)
  return id
}
const cancelled = async (): Promise<string> => {
  const id = await push({ scheduled_at: '2099-01-01T00:00:00Z' })
  expect((await gateway.request('DELETE', `/ojs/v1/jobs/${id}`)).status).toBe(200)
  return id
}

describe('one job', () => {
  it('is retried from each state in which it has ended, in a new generation, and runs', async () => {
    for (const [make, from] of [
      [bury, 'discarded'],
      [completed, 'completed'],
      [cancelled, 'cancelled'],
    ] as const) {
      const id = await make()
      const [status, { job }] = await ask('POST', `/admin/jobs/${id}/retry`)
      expect([status, job.state, job.previous_state]).toEqual([200, 'available', from])
      expect(job).toMatchObject({ generation: 1, attempt: 0, re_enqueued_at: job.enqueued_at })
      for (const gone of ['completed_at', 'cancelled_at', 'discarded_at', 'result', 'error']) {
        expect(job, gone).not.toHaveProperty(gone)
      }
      expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 1, generation: 1 })
      expect((await ack(gateway, id)).status).toBe(200)
    }
  })

  it('is retried at once while it waits for a retry, with its attempts, and runs once', async () => {
    const id = await push({ retry: { max_attempts: 3, initial_interval: 'PT1H' } })
    await fetchOne(gateway, queue)
    await nack(gateway, id, { code: 'smtp' })
    const [status, { job }] = await ask('POST', `/admin/jobs/${id}/retry`)
    expect([status, job.state, job.previous_state]).toEqual([200, 'available', 'retryable'])
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 2, generation: 1 })
    await ack(gateway, id)
    expect(await stateOf(gateway, id)).toBe('completed')
  })

  it('PRI-R001 gets another priority while it waits, and runs once, before those of lower ones', async () => {
    const [low, high] = [await push({ priority: 1 }), await push()]
    const later = await push({ scheduled_at: '2099-01-01T00:00:00Z' })
    await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`)
    const [status, { job }] = await ask('PATCH', `/admin/jobs/${high}`, { priority: 9 })
    expect([status, job]).toMatchObject([200, { id: high, priority: 9, generation: 1 }])
    const [, scheduled] = await ask('PATCH', `/jobs/${later}`, { priority: -100 })
    expect(scheduled.job).toMatchObject({ state: 'scheduled', priority: -100 })
    expect(scheduled.job).not.toHaveProperty('generation')
    // All messages are in the queue before any of them is delivered.
    await eventually(async () => {
      const { body } = await gateway.request('GET', '/metrics')
      return body.includes('\nojs_ledger_tokens_owed 0\n')
    })
    await gateway.request('POST', `/ojs/v1/queues/${queue}/resume`)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: high, priority: 9, attempt: 1 })
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: low })
    expect(await gateway.fetch([queue], { wait_ms: 300 })).toEqual([])
    const [, told] = await ask('GET', '/events?types=priority.changed&limit=1000')
    const [event] = told.events.filter(({ subject }: Json) => subject === high)
    expect(event.data).toMatchObject({ job_id: high, from: 0, to: 9 })
    const [, history] = await ask('GET', `/jobs/${high}/history`)
    const types = history.events.map(({ event_type: type }: Json) => type)
    expect(types.slice(0, 3)).toEqual(['job.created', 'job.priority_changed', 'job.state_changed'])
    const wrong = [{}, { priority: 101 }, { priority: '5' }, { priority: 1, queue: 'x' }]
    for (const body of wrong) expect((await ask('PATCH', `/jobs/${low}`, body))[0]).toBe(400)
    const [refused, { error }] = await ask('PATCH', `/jobs/${low}`, { priority: 2 })
    expect([refused, error.details]).toMatchObject([
      409,
      { current_state: 'active', reason: 'invalid_state_transition' },
    ])
    expect((await ask('PATCH', '/jobs/unknown', { priority: 2 }))[0]).toBe(404)
  })

  it('is refused in another state, with the reason', async () => {
    const id = await push()
    const wrong = { job_id: id, current_state: 'available', reason: 'invalid_state_transition' }
    for (const [method, path] of [
      ['POST', `/admin/jobs/${id}/retry`],
      ['DELETE', `/admin/jobs/${id}`],
    ] as const) {
      const [status, { error }] = await ask(method, path)
      expect([status, error.details]).toEqual([409, wrong])
    }
    expect((await ask('POST', '/admin/jobs/none/retry'))[0]).toBe(404)
    expect((await ask('POST', '/admin/jobs/none/cancel'))[0]).toBe(404)
    const [status, { job }] = await ask('POST', `/admin/jobs/${id}/cancel`)
    expect([status, job.state, job.previous_state]).toEqual([200, 'cancelled', 'available'])
    expect((await ask('POST', `/admin/jobs/${id}/cancel`))[0]).toBe(409)
  })

  it('is a conflict while another job has its unique key', async () => {
    const unique = { keys: ['type', 'queue'] }
    const id = await bury({ unique })
    const other = await push({ unique })
    const [status, { error }] = await ask('POST', `/admin/jobs/${id}/retry`)
    expect([status, error.code]).toEqual([409, 'duplicate'])
    expect(error.details).toMatchObject({ existing_job_id: other })
  })

  it('is deleted for good, and its id may be used again', async () => {
    const id = await completed()
    expect(await ask('DELETE', `/admin/jobs/${id}`)).toEqual([204, ''])
    expect((await gateway.get(id)).status).toBe(404)
    expect(await push({}, { id })).toBe(id)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id, generation: 1 })
  })

  it('a completed step of a workflow is neither retried nor deleted', async () => {
    const steps = [
      { id: 'a', type: 'a', args: [], options: { queue } },
      { id: 'b', type: 'b', args: [], options: { queue }, depends_on: ['a'] },
    ]
    const [status, body] = await ask('POST', '/workflows', { name: 'w', steps })
    expect(status, JSON.stringify(body)).toBe(201)
    const { id } = await fetchOne(gateway, queue)
    await ack(gateway, id)
    for (const [method, path] of [
      ['POST', `/admin/jobs/${id}/retry`],
      ['DELETE', `/admin/jobs/${id}`],
    ] as const) {
      const [refused, { error }] = await ask(method, path)
      expect([refused, error.details.reason]).toEqual([409, 'workflow_step'])
    }
  })

  it('is copied as pending while it is pending', async () => {
    const id = await push({}, { pending: true })
    const [status, { job: copy }] = await ask('POST', `/admin/jobs/${id}/copy`, {})
    expect([status, copy.state]).toEqual([201, 'pending'])
    const override = { pending: false }
    const [, { job: other }] = await ask('POST', `/admin/jobs/${id}/copy`, { override })
    expect(other.state).toBe('available')
  })

  it('is copied with changes, and says of what it is a copy', async () => {
    const other = freshQueue()
    const id = await push({ priority: 3, tags: ['eu'] }, { meta: { a: 1, b: 2 } })
    const override = { queue: other, args: [7], meta: { b: 3 }, priority: 9 }
    const [status, { job }] = await ask('POST', `/admin/jobs/${id}/copy`, { override })
    expect(status).toBe(201)
    expect(job).toMatchObject({
      ...{ queue: other, args: [7], priority: 9, tags: ['eu'], copy_of: id },
      meta: { a: 1, b: 3 },
    })
    expect(job.id).not.toBe(id)
    expect(await fetchOne(gateway, other)).toMatchObject({ id: job.id, args: [7], copy_of: id })
    expect(await stateOf(gateway, id)).toBe('available')
    const bad = await ask('POST', `/admin/jobs/${id}/copy`, { override: { args: 7 } })
    expect([bad[0], bad[1].error.details.field]).toEqual([400, 'override.args'])
    const unknown = await ask('POST', `/admin/jobs/${id}/copy`, { override: { state: 'x' } })
    expect([unknown[0], unknown[1].error.details.field]).toEqual([400, 'override.state'])
    const misspelt = await ask('POST', `/admin/jobs/${id}/copy`, { overrides: {} })
    expect([misspelt[0], misspelt[1].error.details.field]).toEqual([400, 'overrides'])
  })

  it('is copied with times in seconds only if its producer wrote them so', async () => {
    const copied = async (id: string, override?: object) =>
      (await ask('POST', `/admin/jobs/${id}/copy`, { override }))[1].job
    const exact = await push({ timeout_ms: 1_500, visibility_timeout_ms: 2_500 })
    const times = { timeout_ms: 1_500, visibility_timeout_ms: 2_500 }
    for (const copy of [await copied(exact), await copied((await copied(exact)).id)]) {
      expect(copy).toMatchObject(times)
      expect(copy).not.toHaveProperty('timeout')
      expect(copy).not.toHaveProperty('visibility_timeout')
    }
    const other = freshQueue()
    const { id } = await copied(exact, { queue: other })
    const fetched = await fetchOne(gateway, other)
    expect(fetched).toMatchObject({ id, ...times })
    expect(fetched).not.toHaveProperty('timeout')
    const whole = await push({ timeout: 7, visibility_timeout: 40 })
    expect(await copied(whole)).toMatchObject({ timeout: 7, visibility_timeout: 40 })
  })
})

describe('dead letters', () => {
  it('DLQ-001 DLQ-002 are jobs without an attempt left, as pushed, with the error of each attempt', async () => {
    const listed = async (id: string) => {
      const { jobs } = (await ask('GET', `/dead-letter?queue=${queue}`))[1]
      return jobs.some((job: Json) => job.id === id)
    }
    const failures = [{ code: 'dns' }, { code: 'smtp', type: 'Refused' }, { code: 'tls' }]
    const run = async (on_exhaustion: string) => {
      const retry = { max_attempts: 3, initial_interval_ms: 125, jitter: false, on_exhaustion }
      const id = await push({ retry }, { meta: { tenant: 't' } })
      for (const error of failures) {
        expect(await listed(id)).toBe(false)
        expect(await fetchOne(gateway, queue)).toMatchObject({ id })
        expect((await nack(gateway, id, error)).status).toBe(200)
      }
      return id
    }
    const id = await run('dead_letter')
    expect(await listed(id)).toBe(true)
    const { job } = (await ask('GET', `/dead-letter/${id}`))[1]
    expect(job).toMatchObject({
      ...{ id, state: 'discarded', attempt: 3, type: 'mail.send', queue, meta: { tenant: 't' } },
      ...{ args: [{ to: 'ada' }], discarded_at: expect.any(String) },
      errors: failures.map((error, i) => ({ ...error, attempt: i + 1 })),
    })
    const plain = await run('discard')
    expect([await stateOf(gateway, plain), await listed(plain)]).toEqual(['discarded', false])
  })

  it('DLQ-003 are retried by hand: from the beginning, with the errors so far', async () => {
    for (const path of ['/dead-letter', '/admin/dead-letter']) {
      const id = await bury({}, { code: 'smtp' })
      const [status, { job }] = await ask('POST', `${path}/${id}/retry`)
      expect(status).toBe(200)
      expect(job).toMatchObject({ id, state: 'available', attempt: 0, errors: [{ code: 'smtp' }] })
      expect((await ask('GET', `/dead-letter/${id}`))[0]).toBe(404)
      expect(await fetchOne(gateway, queue)).toMatchObject({ id, attempt: 1 })
      await ack(gateway, id)
      expect((await ask('POST', `${path}/${id}/retry`))[0]).toBe(404)
    }
  })

  it('DLQ-006 DLQ-R005 are found by queue, type, error and time', async () => {
    const a = await bury({}, { code: 'smtp', type: 'SmtpRefused', message: 'no' })
    const b = await bury({}, { code: 'dns', message: 'no' })
    const list = async (query: string, path = '/dead-letter'): Promise<string[]> => {
      const [status, body] = await ask('GET', `${path}?queue=${queue}&${query}`)
      expect(status, JSON.stringify(body)).toBe(200)
      return (body.jobs ?? body.items).map(({ id }: Json) => id)
    }
    expect(await list('')).toEqual([b, a])
    expect(await list('type=mail.*')).toEqual([b, a])
    expect(await list('type=other')).toEqual([])
    expect(await list('error_type=SmtpRefused')).toEqual([a])
    expect(await list('error_type=dns')).toEqual([b])
    expect(await list('error_code=smtp')).toEqual([a])
    expect(await list('since=1h')).toEqual([b, a])
    expect(await list('until=1h')).toEqual([])
    expect(await list('', '/admin/dead-letter')).toEqual([b, a])
    const [, first] = await ask('GET', `/dead-letter?queue=${queue}&limit=1`)
    expect(first.pagination).toMatchObject({ total: 2, has_more: true })
    expect(await list(`limit=1&cursor=${first.pagination.next_cursor}`)).toEqual([a])
    expect((await ask('GET', '/dead-letter?sate=x'))[0]).toBe(400)
    expect((await ask('GET', `/dead-letter/${a}`))[1].job.id).toBe(a)
    expect((await ask('GET', `/dead-letter/${await push()}`))[0]).toBe(404)
  })

  it('DLQ-R004 are counted by queue, type and error', async () => {
    await bury({}, { code: 'smtp', type: `Refused${queue}`, message: 'no' })
    await bury({}, { code: `dns${queue}`, message: 'no' })
    for (const path of ['/dead-letter/stats', '/admin/dead-letter/stats']) {
      const [status, stats] = await ask('GET', path)
      expect([status, stats.by_queue[queue]]).toEqual([200, 2])
      expect(stats.by_error_type).toMatchObject({ [`Refused${queue}`]: 1, [`dns${queue}`]: 1 })
      expect(stats.by_type['mail.send']).toBe(stats.total)
      expect(stats.oldest_at <= stats.newest_at).toBe(true)
      expect((await ask('GET', `${path}?queue=${queue}`))[1]).toMatchObject({
        total: 2,
        by_queue: { [queue]: 2 },
        by_type: { 'mail.send': 2 },
      })
      const [, { error }] = await ask('GET', `${path}?type=mail.send`)
      expect([error.code, error.details.field]).toEqual(['invalid_request', 'type'])
    }
  })

  it('DLQ-R002 are retried with changes as a copy; the original is kept and linked', async () => {
    const other = freshQueue()
    const id = await bury()
    const override = { queue: other, args: ['b'], retry: { max_attempts: 5 } }
    const [status, { job }] = await ask('POST', `/dead-letter/${id}/retry`, { override })
    expect([status, job.re_enqueued_at]).toEqual([200, job.enqueued_at])
    expect(job).toMatchObject({ queue: other, args: ['b'], max_attempts: 5, copy_of: id })
    const original = (await gateway.get(id)).body.job
    expect(original).toMatchObject({
      state: 'discarded',
      retried_as: job.id,
      args: [{ to: 'ada' }],
    })
    expect(await fetchOne(gateway, other)).toMatchObject({ id: job.id, args: ['b'] })
    const filter = { queue }
    const [, bulk] = await ask('POST', '/dead-letter/retry', { filter, confirm: true })
    expect(bulk).toMatchObject({
      matched: 1,
      failed: 1,
      errors: [{ job_id: id, reason: 'retried' }],
    })
    for (const [changed, field] of [
      [{ args: 'x' }, 'override.args'],
      [{ nothing: 1 }, 'override.nothing'],
      ['x', 'override'],
    ] as const) {
      const [bad, { error }] = await ask('POST', `/dead-letter/${id}/retry`, { override: changed })
      expect([bad, error.details.field]).toEqual([400, field])
    }
    for (const path of ['/dead-letter', '/admin/dead-letter']) {
      const wrong = await ask('POST', `${path}/${id}/retry`, { overrides: override })
      expect([wrong[0], wrong[1].error.details.field]).toEqual([400, 'overrides'])
    }
    expect(await stateOf(gateway, id)).toBe('discarded')
    expect((await ask('POST', '/dead-letter/none/retry', { override }))[0]).toBe(404)
  })

  it('DLQ-R001 are retried and purged in bulk, only with confirm', async () => {
    const ids = [await bury(), await bury(), await bury()]
    for (const path of ['/dead-letter/retry', '/admin/dead-letter/retry']) {
      for (const confirm of [undefined, false, 'true']) {
        const [status, { error }] = await ask('POST', path, { filter: { queue }, confirm })
        expect([status, error.details.reason]).toEqual([400, 'confirmation_required'])
      }
    }
    const dry = await ask('POST', '/dead-letter/retry', { filter: { queue }, dry_run: true })
    expect(dry[1]).toMatchObject({ matched: 3, dry_run: true, sample: ids })
    const asked = { filter: { queue }, confirm: true, limit: 2 }
    const [status, done] = await ask('POST', '/admin/dead-letter/retry', asked)
    expect([status, done]).toMatchObject([
      200,
      { action: 'retry', matched: 2, succeeded: 2, retried: 2, failed: 0, has_more: true },
    ])
    for (const id of ids.slice(0, 2)) expect(await fetchOne(gateway, queue)).toMatchObject({ id })
    const refused = await ask('DELETE', `/admin/dead-letter?queue=${queue}`)
    expect(refused[1].error.details.reason).toBe('confirmation_required')
    const [purged, { deleted }] = await ask(
      'DELETE',
      `/admin/dead-letter?queue=${queue}&confirm=true`,
    )
    expect([purged, deleted]).toEqual([200, 1])
    expect((await gateway.get(ids[2] ?? '')).status).toBe(404)
    const [empty] = await ask('POST', '/dead-letter/purge', { queue, confirm: true })
    expect(empty).toBe(200)
  })

  it('are deleted with 204 under /admin', async () => {
    const id = await bury()
    expect(await ask('DELETE', `/admin/dead-letter/${id}`)).toEqual([204, ''])
    expect((await ask('DELETE', `/admin/dead-letter/${id}`))[0]).toBe(404)
  })
})

describe('bulk enqueue', () => {
  const jobs = () => [
    { type: 'a', args: [], options: { queue } },
    { type: '', args: [], options: { queue } },
  ]

  it('BLK-001 BLK-002 BLK-004 answers a result for each job: 207 for a mixed outcome', async () => {
    const [status, body] = await ask('POST', '/jobs/bulk', { jobs: jobs(), atomicity: 'partial' })
    expect([status, body.total, body.succeeded, body.failed]).toEqual([207, 2, 1, 1])
    expect(body.items).toMatchObject([
      { index: 0, status: 'created', job: { type: 'a', state: 'available' } },
      {
        index: 1,
        status: 'failed',
        error: { code: 'invalid_request', details: { field: 'type' } },
      },
    ])
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: body.items[0].job.id })
    const { body: told } = await gateway.request(
      'GET',
      '/ojs/v1/events?types=bulk.enqueue.completed&limit=1000',
    )
    const data = { total: 2, succeeded: 1, failed: 1, atomicity: 'partial' }
    expect(told.events.at(-1).data).toMatchObject(data)
  })

  it('refuses a job alone whose text cannot be kept, among many that are taken', async () => {
    const good = JSON.stringify(jobs()[0])
    const nested = `${'['.repeat(40)}${']'.repeat(40)}`
    const heavy = `[${Array(300_000).fill('{}')}]`
    const withArgs = (args: string) => good.replace('[]', args)
    const send = async (...texts: string[]): Promise<[number, Json]> => {
      const answer = await fetch(`${gateway.url}/ojs/v1/jobs/bulk`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: `{"jobs":[${texts.join(',')}]}`,
      })
      return [answer.status, await answer.json()]
    }
    const bad = [withArgs('[12345678901234567890]'), withArgs(nested), withArgs(heavy), '7']
    const [status, body] = await send(good, ...bad, good)
    expect([status, body.succeeded, body.failed]).toEqual([207, 2, 4])
    expect(body.items).toMatchObject([
      { status: 'created' },
      { status: 'failed', error: { details: { reason: 'unsafe_number', field: 'args[0]' } } },
      { status: 'failed', error: { details: { max_depth: 32 } } },
      { status: 'failed', error: { details: { reason: 'too_many_values' } } },
      { status: 'failed', error: { details: { expected: 'object' } } },
      { status: 'created' },
    ])
    expect((await send(good, withArgs('[NaN]')))[0]).toBe(400)
    expect((await gateway.fetch([queue], { count: 10 })).length).toBe(2)
  })

  it('answers 201, 200 and 422 if all were created, existed, or failed', async () => {
    const one = { type: 'a', args: [], options: { queue, unique: { on_conflict: 'ignore' } } }
    const all = async (list: object[], more = {}) =>
      (await ask('POST', '/jobs/bulk', { jobs: list, ...more }))[0]
    expect(await all([one])).toBe(201)
    expect(await all([one])).toBe(200)
    expect(await all([{ type: '' }])).toBe(422)
    expect(await all([])).toBe(400)
    expect(await all([one], { atomicity: 'x' })).toBe(400)
  })

  it('BLK-R001 stores nothing of an atomic request with a refused job', async () => {
    const [status, body] = await ask('POST', '/jobs/bulk', { jobs: jobs(), atomicity: 'atomic' })
    expect([status, body.succeeded]).toEqual([422, 0])
    expect(body.items[0].error.details).toEqual({ reason: 'rolled_back' })
    expect(body.items[1].error.details.field).toContain('type')
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('BLK-R002 stores nothing again for the same Idempotency-Key', async () => {
    const request = { jobs: [jobs()[0], jobs()[0]], idempotency_key: `key-${queue}` }
    const [, first] = await ask('POST', '/jobs/bulk', request)
    const [status, second] = await ask('POST', '/jobs/bulk', request)
    expect(status).toBe(201)
    expect(second.items.map(({ job }: Json) => job.id)).toEqual(
      first.items.map(({ job }: Json) => job.id),
    )
    expect(new Set(second.items.map(({ job }: Json) => job.id)).size).toBe(2)
  })

  it('BLK-003 BLK-005 BLK-R006 takes 1,000 jobs, and refuses more with 413', async () => {
    const many = (count: number) => ({
      jobs: Array.from({ length: count }, () => ({ type: 'a', args: [], options: { queue } })),
    })
    const [status, body] = await ask('POST', '/jobs/bulk', many(1_000))
    expect([status, body.succeeded]).toEqual([201, 1_000])
    const [refused, { error }] = await ask('POST', '/jobs/bulk', many(1_001))
    expect([refused, error.details]).toMatchObject([413, { max_batch_size: 1_000 }])
  })
})

describe('bulk by ids', () => {
  it('BLK-R003 cancels, with a result for each: 207, 200, 422', async () => {
    const [a, b, done] = [await push(), await push(), await cancelled()]
    const ids = [a, done, 'none']
    const [status, body] = await ask('POST', '/jobs/bulk/cancel', { job_ids: ids })
    expect([status, body]).toMatchObject([207, { total_matched: 3, cancelled: 1, skipped: 2 }])
    expect(body.items).toEqual([
      { index: 0, job_id: a, status: 'cancelled' },
      { index: 1, job_id: done, status: 'skipped', reason: 'cancelled' },
      { index: 2, job_id: 'none', status: 'skipped', reason: 'not_found' },
    ])
    expect((await ask('POST', '/jobs/bulk/cancel', { job_ids: ids }))[0]).toBe(422)
    expect((await ask('POST', '/jobs/bulk/cancel', { job_ids: [b] }))[0]).toBe(200)
  })

  it('does all or nothing with atomicity: atomic', async () => {
    const [a, done] = [await push(), await cancelled()]
    const asked = { job_ids: [a, done], atomicity: 'atomic' }
    const [status, body] = await ask('POST', '/jobs/bulk/cancel', asked)
    expect([status, body.cancelled, body.skipped]).toEqual([422, 0, 2])
    expect(body.items).toMatchObject([{ reason: 'rolled_back' }, { reason: 'cancelled' }])
    expect(await stateOf(gateway, a)).toBe('available')
    const alone = await ask('POST', '/jobs/bulk/cancel', { ...asked, job_ids: [a] })
    expect([alone[0], alone[1].cancelled]).toEqual([200, 1])
  })

  it('BLK-R004 BLK-R005 retries and deletes only what the action may touch', async () => {
    const [dead, ended] = [await bury(), await cancelled()]
    const [, retried] = await ask('POST', '/jobs/bulk/retry', { job_ids: [dead, ended] })
    expect(retried).toMatchObject({ retried: 1, items: [{}, { reason: 'cancelled' }] })
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: dead, generation: 1 })
    const [, deleted] = await ask('POST', '/jobs/bulk/delete', { job_ids: [dead, ended] })
    expect(deleted).toMatchObject({ deleted: 1, items: [{ reason: 'active' }, {}] })
    expect((await gateway.get(ended)).status).toBe(404)
  })

  it('refuses both, neither, too many, and unknown members', async () => {
    const status = async (body: object) => (await ask('POST', '/jobs/bulk/cancel', body))[0]
    expect(await status({})).toBe(400)
    expect(await status({ job_ids: ['a'], filter: {} })).toBe(400)
    expect(await status({ job_ids: [] })).toBe(400)
    expect(await status({ job_ids: Array(1_001).fill('a') })).toBe(413)
    expect(await status({ filter: { sate: 'x' } })).toBe(400)
    expect(await status({ filter: { state: 'completed' } })).toBe(400)
    expect((await ask('POST', '/jobs/bulk/delete', { filter: {} }))[0]).toBe(400)
  })
})

describe('bulk by filter', () => {
  it('BLK-R003 acts on those that match, and on no others', async () => {
    const other = freshQueue()
    const [a, b] = [await push(), await push({ priority: 7 })]
    const [c] = [await push({ queue: other })]
    const filter = { queue, priority: 7, state: ['available'] }
    const [status, body] = await ask('POST', '/jobs/bulk/cancel', { filter })
    expect([status, body]).toMatchObject([200, { cancelled: 1, items: [{ job_id: b }] }])
    expect([await stateOf(gateway, a), await stateOf(gateway, c)]).toEqual([
      'available',
      'available',
    ])
  })

  it('ADM-007 ADM-R005 needs confirm, honors the limit, and tells what it could not do', async () => {
    const ids = [await push(), await push(), await push()]
    const path = '/admin/jobs/bulk/cancel'
    const [refused, { error }] = await ask('POST', path, { filter: { queue } })
    expect([refused, error.details]).toMatchObject([400, { reason: 'confirmation_required' }])
    const [, dry] = await ask('POST', path, { filter: { queue }, dry_run: true })
    expect(dry).toMatchObject({ matched: 3, sample: ids })
    const asked = { filter: { queue }, confirm: true }
    const [status, first] = await ask('POST', path, { ...asked, limit: 2 })
    expect([status, first]).toMatchObject([
      200,
      { action: 'cancel', matched: 2, succeeded: 2, cancelled: 2, has_more: true, errors: [] },
    ])
    expect(await stateOf(gateway, ids[2] ?? '')).toBe('available')
    expect((await ask('POST', path, asked))[1]).toMatchObject({ cancelled: 1, has_more: false })
    expect((await ask('POST', path, { ...asked, limit: 100_001 }))[0]).toBe(400)
    const [, deleted] = await ask('POST', '/admin/jobs/bulk/delete', asked)
    expect(deleted).toMatchObject({ deleted: 3 })
    const only = { ...asked, filter: { queue, state: 'active' } }
    expect((await ask('POST', '/admin/jobs/bulk/delete', only))[0]).toBe(400)
    const all = await ask('POST', '/admin/jobs/bulk/delete', { filter: {}, confirm: true })
    expect(all[0]).toBe(400)
  })

  it('runs in the background with async, and can be watched, listed and stopped', async () => {
    const ids = [await push(), await push()]
    const counted = async () => {
      const { body } = await gateway.request('GET', '/metrics')
      const of = (name: string) =>
        Number(new RegExp(`^ojs_bulk_${name}\\} (\\d+)$`, 'm').exec(body)?.[1] ?? 0)
      return [
        of('operations_started_total{operation="cancel"'),
        of('operations_ended_total{operation="cancel",outcome="completed"'),
        of('items_total{operation="cancel",status="cancelled"'),
      ]
    }
    const before = await counted()
    const asked = { filter: { queue }, confirm: true, async: true }
    const [status, begun] = await ask('POST', '/admin/jobs/bulk/cancel', asked)
    expect([status, begun]).toMatchObject([
      202,
      { state: 'running', expected: 2, filter: { queue } },
    ])
    const path = `/admin/operations/${begun.id}`
    await eventually(async () => (await ask('GET', path))[1].state === 'completed')
    const [, ended] = await ask('GET', path)
    expect(ended).toMatchObject({ matched: 2, succeeded: 2, cancelled: 2, has_more: false })
    for (const id of ids) expect(await stateOf(gateway, id)).toBe('cancelled')
    const [, { items, pagination }] = await ask('GET', '/admin/operations')
    expect(items[0]).toEqual(ended)
    expect(pagination.total).toBeGreaterThan(0)
    expect((await ask('POST', `${path}/stop`))[1]).toEqual(ended)
    expect((await ask('GET', '/admin/operations/none'))[0]).toBe(404)
    expect((await ask('POST', '/admin/operations/none/stop'))[0]).toBe(404)
    const [, told] = await ask('GET', '/events?types=bulk.cancel.completed&limit=1000')
    const events = told.events.filter(({ subject }: Json) => subject === begun.id)
    expect(events).toMatchObject([{ data: { total: 2, cancelled: 2, skipped: 0 } }])
    const more = (await counted()).map((count, i) => count - (before[i] ?? 0))
    expect(more).toEqual([1, 1, 2])
  })
})
