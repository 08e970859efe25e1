import { v7 } from 'uuid'
import { beforeEach, describe, expect, it } from 'vitest'
import { newApiKey } from '../../../src/http/access/api-keys.ts'
import type { Answer } from '../../support/gateway/in-process.ts'
import {
  eventsOf,
  fetchMany,
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  storyOf,
  withChannel,
} from '../harness.ts'

const { gateway, vhost } = gatewayForAll()
let queue = ''
beforeEach(() => {
  queue = freshQueue()
})

const TYPE_AND_ARGS = { keys: ['type', 'args', 'queue'] }
const push = (unique: object, over: { options?: object; args?: unknown[]; id?: string } = {}) =>
  gateway.push(queue, { ...over, options: { unique, ...over.options } })
const pushAll = (jobs: readonly object[]) =>
  gateway.request('POST', '/ojs/v1/jobs/batch', {
    jobs: jobs.map(({ options, ...over }: { options?: object }) => ({
      type: 'test.job',
      args: [1],
      ...over,
      options: { queue, ...options },
    })),
  })
const statusOf = (answer: Answer) => answer.status

describe('64 concurrent duplicates', () => {
  it.each([
    ['reject', 409],
    ['ignore', 200],
  ])('with on_conflict %s get exactly one 201', async (on_conflict, other) => {
    const answers = await Promise.all(
      Array.from({ length: 64 }, () => push({ ...TYPE_AND_ARGS, on_conflict })),
    )
    const created = answers.filter(({ status }) => status === 201)
    expect(created).toHaveLength(1)
    const { id } = created[0]?.body.job ?? {}
    for (const { status, body } of answers.filter((answer) => answer !== created[0])) {
      expect(status).toBe(other)
      expect(body.job?.id ?? body.error.details.existing_job_id).toBe(id)
    }
    expect((await fetchOne(gateway, queue)).id).toBe(id)
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('with on_conflict replace are all accepted; 63 end as cancelled and one stays available', async () => {
    const unique = { ...TYPE_AND_ARGS, on_conflict: 'replace' }
    const answers = await Promise.all(Array.from({ length: 64 }, () => push(unique)))
    expect(new Set(answers.map(statusOf))).toEqual(new Set([201]))
    const states = await Promise.all(
      answers.map(async ({ body }) => (await gateway.get(body.job.id)).body.state),
    )
    expect(states.filter((state) => state === 'available')).toHaveLength(1)
    expect(states.filter((state) => state === 'cancelled')).toHaveLength(63)
    const left = answers[states.indexOf('available')]?.body.job.id
    expect((await fetchOne(gateway, queue)).id).toBe(left)
    expect(await gateway.fetch([queue])).toEqual([])
  })
})

describe('PUSH of a duplicate', () => {
  it('is refused with a 409 that names the existing job (seed 001 §9.1)', async () => {
    const first = await push(TYPE_AND_ARGS)
    const { status, body } = await push(TYPE_AND_ARGS)
    expect(status).toBe(409)
    expect(body.error).toMatchObject({ code: 'duplicate', retryable: false })
    expect(body.error.details).toEqual({
      existing_job_id: first.body.job.id,
      existing_job_state: 'available',
      unique_key: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect((await push(TYPE_AND_ARGS, { args: [2] })).status).toBe(201)
  })

  it.each(['ignore', 'drop'])(
    'answers the existing job when on_conflict is %s',
    async (on_conflict) => {
      const unique = { ...TYPE_AND_ARGS, on_conflict }
      const first = await push(unique)
      const again = await push(unique)
      expect(again.status).toBe(200)
      expect(again.headers.get('location')).toBeNull()
      expect(again.body).toMatchObject({ deduplicated: true, job: { id: first.body.job.id } })
      expect(await storyOf(gateway, queue, first.body.job.id)).toEqual(['job.enqueued'])
    },
  )

  it('is accepted once the existing job has completed, unless states includes completed', async () => {
    const { id } = (await push(TYPE_AND_ARGS)).body.job
    await fetchOne(gateway, queue)
    expect((await push(TYPE_AND_ARGS)).body.error.details.existing_job_state).toBe('active')
    await gateway.ack(id)
    expect((await push(TYPE_AND_ARGS)).status).toBe(201)
    const ended = await push({ ...TYPE_AND_ARGS, states: ['completed'] })
    expect(ended.body.error.details).toMatchObject({ existing_job_id: id })
  })

  it('cancels the existing job when on_conflict is replace, even if it is active', async () => {
    const unique = { ...TYPE_AND_ARGS, on_conflict: 'replace' }
    const old = (await push(unique)).body.job.id
    await fetchOne(gateway, queue, { worker_id: 'w' })
    const next = await push(unique)
    expect(next.status).toBe(201)
    expect((await gateway.get(old)).body.state).toBe('cancelled')
    expect(await storyOf(gateway, queue, old)).toEqual([
      'job.enqueued',
      'job.started',
      'job.cancelled',
    ])
    const beat = await gateway.request('POST', '/ojs/v1/workers/heartbeat', {
      worker_id: 'w',
      active_jobs: [old],
    })
    expect(beat.body.cancelled_jobs).toEqual([old])
    expect((await gateway.ack(old)).status).toBe(409)
    expect((await fetchOne(gateway, queue)).id).toBe(next.body.job.id)
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('takes over scheduled_at from the existing job when on_conflict is replace_except_schedule', async () => {
    const unique = { ...TYPE_AND_ARGS, on_conflict: 'replace_except_schedule' }
    const at = '2999-01-01T00:00:00Z'
    const old = (await push(unique, { options: { delay_until: at } })).body.job.id
    const { status, body } = await push(unique)
    expect(status).toBe(201)
    expect(body.job).toMatchObject({ state: 'scheduled', scheduled_at: at })
    expect((await gateway.get(body.job.id)).body.job).toMatchObject({ scheduled_at: at })
    expect((await gateway.get(old)).body.state).toBe('cancelled')
  })

  it('is refused, and replaces nothing, when its own id is taken', async () => {
    const unique = { ...TYPE_AND_ARGS, on_conflict: 'replace' }
    const taken = (await gateway.push(queue)).body.job.id
    const { id } = (await push(unique)).body.job
    const { status, body } = await push(unique, { id: taken })
    expect(status).toBe(409)
    expect(body.error.details).toEqual({ existing_job_id: taken, field: 'id' })
    expect((await gateway.get(id)).body.state).toBe('available')
  })
})

it("two PUSHes, each with the other's id and unique key, are both refused without a deadlock", async () => {
  const [a, b] = [v7(), v7()]
  const pushAs = (id: string, args: unknown[]) => push(TYPE_AND_ARGS, { id, args })
  expect((await pushAs(a, ['a'])).status).toBe(201)
  expect((await pushAs(b, ['b'])).status).toBe(201)
  const answers = await Promise.all([pushAs(a, ['b']), pushAs(b, ['a'])])
  expect(answers.map(statusOf)).toEqual([409, 409])
})

describe('a batch of unique jobs', () => {
  it('is refused as a whole for one duplicate, also of a job in the same batch', async () => {
    const existing = (await push(TYPE_AND_ARGS)).body.job.id
    const ids = [v7(), v7()]
    const stored = await pushAll([
      { id: ids[0], args: ['other'] },
      { id: ids[1], options: { unique: TYPE_AND_ARGS } },
    ])
    expect(stored.status).toBe(409)
    expect(stored.body.error.details).toMatchObject({ index: 1, existing_job_id: existing })
    const own = await pushAll(
      ids.map((id) => ({ id, args: ['own'], options: { unique: TYPE_AND_ARGS } })),
    )
    expect(own.status).toBe(409)
    expect(own.body.error.details).toMatchObject({ index: 1, existing_job_id: ids[0] })
    const isOwn = (answer: typeof own) => answer.body.error.details.reason === 'same_batch'
    expect([isOwn(stored), isOwn(own)]).toEqual([false, true])
    expect(own.body.error.message).toContain('No job of the batch is stored.')
    for (const id of ids) expect((await gateway.get(id)).status).toBe(404)
  })

  it('with on_conflict ignore answers existing jobs in place of its duplicates', async () => {
    const unique = { ...TYPE_AND_ARGS, on_conflict: 'ignore' }
    const existing = (await push(unique)).body.job.id
    const { status, body } = await pushAll([
      { options: { unique } },
      { args: ['a'], options: { unique } },
      { args: ['a'], options: { unique } },
    ])
    expect(status).toBe(201)
    const [first, second, third] = body.jobs
    expect(first.id).toBe(existing)
    expect(third).toEqual(second)
    expect(body).toMatchObject({ count: 3, deduplicated: [0, 2] })
    const all = await pushAll([{ options: { unique } }])
    expect(all.status).toBe(200)
    const got = await fetchMany(gateway, queue, 2)
    expect(got.map(({ id }) => id)).toEqual([existing, second.id])
  })

  it('with on_conflict replace cancels an earlier job of its own, which FETCH never answers', async () => {
    const unique = { ...TYPE_AND_ARGS, on_conflict: 'replace' }
    const { status, body } = await pushAll([{ options: { unique } }, { options: { unique } }])
    expect(status).toBe(201)
    expect(body.jobs.map((job: { state: string }) => job.state)).toEqual(['cancelled', 'available'])
    expect((await fetchOne(gateway, queue)).id).toBe(body.jobs[1].id)
    expect(await storyOf(gateway, queue, body.jobs[0].id)).toEqual([
      'job.enqueued',
      'job.cancelled',
    ])
  })
})

describe('the retry of a dead letter', () => {
  it('is refused with 409 while another job has its unique key', async () => {
    const retry = { max_attempts: 1 }
    const { id } = (await push(TYPE_AND_ARGS, { options: { retry } })).body.job
    await fetchOne(gateway, queue)
    await nack(gateway, id)
    const rival = (await push(TYPE_AND_ARGS)).body.job.id
    const refused = await gateway.request('POST', `/ojs/v1/dead-letter/${id}/retry`)
    expect(refused.status).toBe(409)
    expect(refused.body.error).toMatchObject({
      code: 'duplicate',
      details: { existing_job_id: rival, existing_job_state: 'available' },
    })
    await gateway.cancel(rival)
    expect((await gateway.request('POST', `/ojs/v1/dead-letter/${id}/retry`)).status).toBe(200)
    expect((await push(TYPE_AND_ARGS)).status).toBe(409)
  })
})

it.each([
  [{ keys: ['type', 'colour'] }, 'options.unique.keys'],
  [{ states: ['gone'] }, 'options.unique.states'],
  [{ keys: ['meta'] }, 'options.unique.meta_keys'],
  [{ period: 'P' }, 'options.unique.period'],
  [{ on_conflict: 'explode' }, 'options.unique.on_conflict'],
  [{ colour: ['red'] }, 'options.unique.colour'],
])('PUSH refuses the unique policy %o with 400', async (unique, field) => {
  const { status, body } = await push(unique)
  expect(status).toBe(400)
  expect(body.error).toMatchObject({ code: 'invalid_request', details: { field } })
})

describe('a PUSH that RabbitMQ refuses', () => {
  /** Declares the queue with a limit of no messages, so that RabbitMQ nacks every publish. */
  const declareFullQueue = () =>
    withChannel(vhost.url, (channel) =>
      channel.assertQueue(`ojs.queue.${queue}`, {
        durable: true,
        arguments: { 'x-max-length': 0, 'x-overflow': 'reject-publish' },
      }),
    )

  it('does not take the unique key: each duplicate is refused with 429 too, not 409', async () => {
    await declareFullQueue()
    const unique = (i: number) => ({
      ...TYPE_AND_ARGS,
      on_conflict: ['reject', 'ignore', 'replace'][i % 3],
    })
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => push(unique(i))))
    expect(new Set(answers.map(statusOf))).toEqual(new Set([429]))
    const batch = await pushAll([{ options: { unique: TYPE_AND_ARGS } }])
    expect(batch.status).toBe(429)
    await withChannel(vhost.url, (channel) => channel.deleteQueue(`ojs.queue.${queue}`))
    expect((await push(TYPE_AND_ARGS)).status).toBe(201)
  })

  it('is accepted all the same when it has replaced a job', async () => {
    const unique = { ...TYPE_AND_ARGS, on_conflict: 'replace' }
    await declareFullQueue()
    const old = (await push(unique, { options: { pending: true } })).body.job.id
    const { status, body } = await push(unique)
    expect(status).toBe(201)
    expect((await gateway.get(old)).body.state).toBe('cancelled')
    await withChannel(vhost.url, (channel) => channel.deleteQueue(`ojs.queue.${queue}`))
    // The PUSH declares the queue again, and the relay then sends the job message that is still owed.
    expect((await push(TYPE_AND_ARGS, { args: ['other'] })).status).toBe(201)
    const got = await fetchMany(gateway, queue, 2)
    expect(got.map(({ id }) => id)).toContain(body.job.id)
  })

  it('is not stored under its Idempotency-Key', async () => {
    await declareFullQueue()
    const body = { type: 'test.job', args: [], options: { queue } }
    const ask = (path: string, asked: object) =>
      gateway.request('POST', path, asked, { 'Idempotency-Key': queue })
    const all = { jobs: [body] }
    const paths = ['/ojs/v1/jobs', '/ojs/v1/jobs/batch']
    const asked = [...paths, ...paths].map((path, i) => ask(path, i % 2 === 0 ? body : all))
    expect((await Promise.all(asked)).map(statusOf)).toEqual([429, 429, 429, 429])
    await withChannel(vhost.url, (channel) => channel.deleteQueue(`ojs.queue.${queue}`))
    for (const again of [await ask('/ojs/v1/jobs', body), await ask('/ojs/v1/jobs/batch', all)]) {
      expect(again.status).toBe(201)
      expect(again.headers.get('idempotent-replayed')).toBeNull()
    }
  })
})

describe('an Idempotency-Key', () => {
  const keyed = (key: string, body: object, path = '/ojs/v1/jobs') =>
    gateway.request('POST', path, body, { 'Idempotency-Key': key })
  const job = (args: unknown[] = []) => ({ type: 'test.job', args, options: { queue } })

  it('answers a repeated request like the first one, with the current state of the job', async () => {
    const first = await keyed('a', job())
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([201, null])
    await fetchOne(gateway, queue)
    const again = await keyed('a', { options: { queue }, args: [], type: 'test.job' })
    expect(again.status).toBe(201)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.headers.get('location')).toBe(first.headers.get('location'))
    expect(again.body.job).toMatchObject({ id: first.body.job.id, state: 'active' })
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('makes one job of 32 concurrent requests', async () => {
    const answers = await Promise.all(Array.from({ length: 32 }, () => keyed('many', job())))
    expect(new Set(answers.map(statusOf))).toEqual(new Set([201]))
    expect(new Set(answers.map(({ body }) => body.job.id)).size).toBe(1)
    const replays = answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')
    expect(replays).toHaveLength(31)
  })

  it('is refused with 409 when the body differs, and can be used again in another endpoint', async () => {
    const { id } = (await keyed('b', job())).body.job
    const { status, body } = await keyed('b', job([1]))
    expect(status).toBe(409)
    expect(body.error).toMatchObject({
      code: 'duplicate',
      details: { field: 'Idempotency-Key', reason: 'other_body', existing_job_id: id },
    })
    expect((await keyed('b', { jobs: [job()] }, '/ojs/v1/jobs/batch')).status).toBe(201)
  })

  it('holds for a batch too, and survives a restart of the gateway', async () => {
    const body = { jobs: [job([1]), job([2])] }
    const first = await keyed('batch', body, '/ojs/v1/jobs/batch')
    const single = await keyed('single', job([3]))
    await gateway.restart()
    const again = await keyed('batch', body, '/ojs/v1/jobs/batch')
    expect([again.status, again.body]).toEqual([201, first.body])
    expect((await keyed('single', job([3]))).body.job.id).toBe(single.body.job.id)
    expect(await eventsOf(gateway, queue, first.body.jobs[0].id)).toEqual([])
  })

  it('replays an answer that was deduplicated, but no refusal', async () => {
    const options = { queue, unique: { ...TYPE_AND_ARGS, on_conflict: 'ignore' } }
    const body = { type: 'test.job', args: [1], options }
    expect((await keyed('bad', { ...body, type: '' })).status).toBe(400)
    const existing = (await gateway.request('POST', '/ojs/v1/jobs', body)).body.job.id
    expect((await keyed('bad', body)).status).toBe(200)
    await gateway.cancel(existing)
    const again = await keyed('bad', body)
    expect([again.status, again.body.deduplicated, again.body.job.id]).toEqual([
      200,
      true,
      existing,
    ])
  })

  it('is answered with 409 job_gone once its job was deleted', async () => {
    const { id } = (await keyed('c', job())).body.job
    await fetchOne(gateway, queue)
    await nack(gateway, id, { retryable: false })
    expect((await gateway.request('DELETE', `/ojs/v1/dead-letter/${id}`)).status).toBe(200)
    const { status, body } = await keyed('c', job())
    expect(status).toBe(409)
    expect(body.error.details).toMatchObject({ reason: 'job_gone', existing_job_id: id })
  })

  it.each([
    ['PUSH', (job: object) => ['/ojs/v1/jobs', job] as const],
    ['batch', (job: object) => ['/ojs/v1/jobs/batch', { jobs: [job] }] as const],
  ])('is answered with 409 job_gone when its id is that of another job: %s', async (_, to) => {
    const id = v7()
    const given = { type: 'test.job', args: [1], options: { queue }, id }
    const [path, body] = to(given)
    const ask = () => gateway.request('POST', path, body, { 'Idempotency-Key': `again ${id}` })
    const pushedBy = async (over: object) => {
      await gateway.cancel(id)
      await gateway.request('DELETE', `/ojs/v1/admin/jobs/${id}`)
      expect((await gateway.request('POST', '/ojs/v1/jobs', { ...given, ...over })).status).toBe(
        201,
      )
    }
    expect([(await ask()).status, (await ask()).status]).toEqual([201, 201])
    for (const over of [{ args: [2] }, { type: 'test.other' }]) {
      await pushedBy(over)
      const { status, body } = await ask()
      expect([status, body.error?.details.reason]).toEqual([409, 'job_gone'])
    }
    await pushedBy({})
    expect((await ask()).status).toBe(201)
  })
})

describe('with OJS_API_KEYS', () => {
  const producers = [newApiKey('one', 'producer'), newApiKey('two', 'producer')] as const
  const admin = newApiKey('admin', 'admin')
  const ofA = newApiKey('of-a', 'producer', ['a'])
  const { gateway: guarded } = gatewayForAll({
    OJS_API_KEYS: [...producers, admin, ofA].map(({ entry }) => entry).join(),
  })

  it('each API key has its own Idempotency-Keys', async () => {
    const body = { type: 'test.job', args: [], options: { queue } }
    const ask = ({ key }: { key: string }, args: unknown[]) =>
      guarded.request(
        'POST',
        '/ojs/v1/jobs',
        { ...body, args },
        {
          'Idempotency-Key': 'same',
          Authorization: `Bearer ${key}`,
        },
      )
    const first = await ask(producers[0], [1])
    const second = await ask(producers[1], [2])
    expect([first.status, second.status]).toEqual([201, 201])
    expect((await ask(producers[0], [1])).body.job.id).toBe(first.body.job.id)
    expect((await ask(producers[1], [1])).status).toBe(409)
  })

  it('a key of some queues is not answered with a job of another queue', async () => {
    const id = v7()
    const body = (to: string) => ({ type: 'test.job', args: [1], id, options: { queue: to } })
    const ask = (key: string, method: string, path: string, given?: object, idempotency = 'k') =>
      guarded.request(method, `/ojs/v1${path}`, given, {
        ...{ Authorization: `Bearer ${key}`, 'Idempotency-Key': idempotency },
      })
    expect((await ask(ofA.key, 'POST', '/jobs', body('a'))).status).toBe(201)
    await ask(admin.key, 'DELETE', `/jobs/${id}`)
    await ask(admin.key, 'DELETE', `/admin/jobs/${id}`)
    expect((await ask(admin.key, 'POST', '/jobs', body('b'))).status).toBe(201)
    const again = await ask(ofA.key, 'POST', '/jobs', body('a'))
    expect([again.status, again.body.error?.details.reason]).toEqual([409, 'job_gone'])
  })
})
