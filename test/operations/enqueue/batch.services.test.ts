import { v7 } from 'uuid'
import { beforeEach, describe, expect, it } from 'vitest'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { fetchMany, fetchOne, freshQueue, gatewayForAll, storyOf, withChannel } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()
let queue = ''
beforeEach(() => {
  queue = freshQueue()
})

const item = (over: object = {}, options: object = {}) => ({
  id: v7(),
  type: 'test.job',
  args: [],
  options: { queue, ...options },
  ...over,
})
const items = (count: number) => Array.from({ length: count }, (_, i) => item({ args: [i] }))
const push = (jobs: readonly object[], headers: object = {}) =>
  gateway.request('POST', '/ojs/v1/jobs/batch', { jobs }, headers)
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

/** The batch has left nothing: no row, no job message. */
async function expectNothing(jobs: readonly { id: string }[]): Promise<void> {
  for (const { id } of jobs) expect((await gateway.get(id)).status).toBe(404)
  expect(await gateway.fetch([queue], { wait_ms: 300 })).toEqual([])
}

describe('a batch', () => {
  it('is accepted as a whole, in order', async () => {
    const jobs = items(250)
    const answer = await push(jobs)
    expect(answer.status).toBe(201)
    expect(answer.body.count).toBe(250)
    const ids = answer.body.jobs.map((job: { id: string }) => job.id)
    expect(ids).toEqual(jobs.map(({ id }) => id))
    expect(answer.body.jobs[7]).toMatchObject({ state: 'available', args: [7], attempt: 0, queue })
    const got = await fetchMany(gateway, queue, 250, { count: 100 })
    expect(got.map((job) => job.id)).toEqual(ids)
    expect(await storyOf(gateway, queue, ids[0])).toEqual(['job.enqueued', 'job.started'])
  })

  it('limits the nesting of a job to the same depth as PUSH and a workflow step', async () => {
    const nested = (levels: number): unknown[] => (levels === 1 ? [] : [nested(levels - 1)])
    const alone = (job: object) => gateway.request('POST', '/ojs/v1/jobs', job)
    const asStep = (job: object) =>
      gateway.request('POST', '/ojs/v1/workflows', { type: 'chain', steps: [job] })
    for (const post of [alone, (job: object) => push([job]), asStep]) {
      expect((await post(item({ id: undefined, args: nested(31) }))).status).toBe(201)
      const deeper = await post(item({ id: undefined, args: nested(32) }))
      expect([deeper.status, deeper.body.error?.code]).toEqual([400, 'invalid_request'])
    }
  })

  it('may hold jobs of several queues and states, and mints missing ids', async () => {
    const other = freshQueue()
    const { status, body } = await push([
      item(),
      item({ id: undefined }, { queue: other }),
      item({}, { pending: true }),
      item({}, { delay_until: '+PT1H' }),
    ])
    expect(status).toBe(201)
    const states = body.jobs.map((job: { state: string }) => job.state)
    expect(states).toEqual(['available', 'available', 'pending', 'scheduled'])
    expect((await fetchOne(gateway, queue)).id).toBe(body.jobs[0].id)
    expect((await fetchOne(gateway, other)).id).toBe(body.jobs[1].id)
    expect((await gateway.get(body.jobs[3].id)).body.state).toBe('scheduled')
  })

  it('does not put the Idempotency-Key of the request on its job messages, which would all be duplicates', async () => {
    const headers = { 'Idempotency-Key': 'batch-1', traceparent: TRACEPARENT }
    const { status } = await push(items(2), headers)
    expect(status).toBe(201)
    await withChannel(vhost.url, async (channel) => {
      for (const _ of items(2)) {
        const jobMessage = await channel.get(`ojs.queue.${queue}`, { noAck: true })
        const sent = jobMessage === false ? {} : jobMessage.properties.headers
        expect(sent).toMatchObject({ 'x-ojs-trace-id': TRACEPARENT })
        expect(sent).not.toHaveProperty('x-ojs-idempotency-key')
      }
    })
  })
})

describe('a batch is refused as a whole, and leaves no job', () => {
  it.each([0, 1, 2])('for a job without a type at index %i, which the 400 names', async (index) => {
    const jobs: { id: string; type?: string }[] = items(3)
    delete jobs[index]?.type
    const { status, body } = await push(jobs)
    expect(status).toBe(400)
    expect(body.error).toMatchObject({
      code: 'invalid_request',
      details: { index, field: 'type' },
    })
    // As printed in seed 001 §9.2.
    expect(body.error.message).toBe(
      `Batch validation failed: job at index ${index} is missing required field 'type'.`,
    )
    await expectNothing(jobs)
  })

  it('for a retry policy out of range, with a 422 that has the index', async () => {
    const jobs = [item(), item({}, { retry: { max_attempts: -1 } })]
    const { status, body } = await push(jobs)
    expect(status).toBe(422)
    expect(body.error.details).toMatchObject({ index: 1, field: 'options.retry.max_attempts' })
    await expectNothing(jobs)
  })

  it('for an unsafe integer or args nested too deep, with the index and the field of that job', async () => {
    const jobs = items(1)
    // 2^53 + 1, which a JavaScript number cannot represent.
    const [good] = jobs.map((job) => JSON.stringify(job))
    const nested = `${'['.repeat(40)}${']'.repeat(40)}`
    for (const [args, field] of [
      ['[9007199254740993]', 'args[0]'],
      [`[1,${nested}]`, expect.stringMatching(/^args\[1\]\[0\]/)],
    ]) {
      const answer = await fetch(`${gateway.url}/ojs/v1/jobs/batch`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: `{"jobs":[${good},{"type":"a","args":${args}}]}`,
      })
      expect(answer.status).toBe(400)
      const { error } = (await answer.json()) as { error: { message: string } }
      expect(error).toMatchObject({ code: 'invalid_request', details: { index: 1, field } })
      expect(error.message).toMatch(/^Batch validation failed: job at index 1: /)
    }
    await expectNothing(jobs)
  })

  it('when it may be taken in part, which only /jobs/bulk does', async () => {
    const jobs = items(1)
    const body = { jobs, atomicity: 'partial' }
    const refused = await gateway.request('POST', '/ojs/v1/jobs/batch', body)
    expect(refused).toMatchObject({
      status: 400,
      body: { error: { details: { field: 'atomicity', expected: ['atomic'] } } },
    })
    await expectNothing(jobs)
    const whole = { jobs: items(1), atomicity: 'atomic' }
    expect((await gateway.request('POST', '/ojs/v1/jobs/batch', whole)).status).toBe(201)
  })

  it('for an unsafe integer beside its jobs, with the field and without an index', async () => {
    const answer = await fetch(`${gateway.url}/ojs/v1/jobs/batch`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{"jobs":[],"jobs_total":9007199254740993}',
    })
    const { error } = (await answer.json()) as { error: { details: object } }
    expect(error.details).toMatchObject({ field: 'jobs_total' })
    expect(error.details).not.toHaveProperty('index')
  })

  it('for a paused queue, with the index of the first job for it', async () => {
    const paused = freshQueue()
    await gateway.request('POST', `/ojs/v1/queues/${paused}/pause`)
    const jobs = items(3)
    const { status, body } = await push([...jobs, item({}, { queue: paused })])
    expect(status).toBe(422)
    expect(body.error).toMatchObject({ code: 'queue_paused', details: { queue: paused, index: 3 } })
    await expectNothing(jobs)
  })

  it('for an id that already exists', async () => {
    const existing = (await gateway.push(queue)).body.job.id
    expect((await fetchOne(gateway, queue)).id).toBe(existing)
    const jobs = items(4)
    const { status, body } = await push([...jobs.slice(0, 3), item({ id: existing })])
    expect(status).toBe(409)
    expect(body.error).toMatchObject({
      code: 'duplicate',
      details: { existing_job_id: existing, index: 3 },
    })
    await expectNothing(jobs.slice(0, 3))
    expect((await gateway.get(existing)).body.state).toBe('active')
  })

  it('for an id that it has twice, and its ids can be used again', async () => {
    const [first, second] = [item(), item()]
    const { status, body } = await push([first, second, { ...first }])
    expect(status).toBe(409)
    expect(body.error.details).toMatchObject({ index: 2 })
    await expectNothing([first, second])
    // The ids were not used up.
    expect((await push([first, second])).status).toBe(201)
  })

  it('for a full queue, and FETCH drops the job messages that were confirmed', async () => {
    const full = `ojs.queue.${queue}`
    const limits = { 'x-max-length': 5, 'x-overflow': 'reject-publish' }
    await withChannel(vhost.url, (channel) =>
      channel.assertQueue(full, { durable: true, arguments: limits }),
    )
    const jobs = items(100)
    // A waiting FETCH gets none of the job messages: they are parked until the whole batch is confirmed.
    const waiting = gateway.fetch([queue], { wait_ms: 3_000 })
    const { status, body } = await push(jobs)
    expect(await waiting).toEqual([])
    expect(status).toBe(429)
    expect(body.error).toMatchObject({
      code: 'rate_limited',
      details: { reason: 'queue_full', index: expect.any(Number) },
    })
    expect(body.error.details).not.toHaveProperty('started')
    await expectNothing(jobs)
    // FETCH drops the job messages that were confirmed, which makes room in the queue.
    await withChannel(vhost.url, (channel) =>
      eventually(async () => {
        expect(await gateway.fetch([queue], { wait_ms: 300 })).toEqual([])
        return (await channel.checkQueue(full)).messageCount === 0
      }),
    )
    expect((await push(items(3))).status).toBe(201)
  })

  it.each([
    ['no jobs', []],
    ['more than 1,000 jobs', Array.from({ length: 1_001 }, () => ({ type: 'a', args: [] }))],
  ])('for %s', async (_, jobs) => {
    expect((await push(jobs)).status).toBe(400)
  })

  it('for a missing list of jobs', async () => {
    expect((await gateway.request('POST', '/ojs/v1/jobs/batch', {})).status).toBe(400)
  })
})

describe('a batch for a queue that was deleted in RabbitMQ', () => {
  it('declares the queue again and publishes all of its jobs to it', async () => {
    expect((await push(items(1))).status).toBe(201)
    await fetchOne(gateway, queue)
    await withChannel(vhost.url, (channel) => channel.deleteQueue(`ojs.queue.${queue}`))
    const jobs = items(20)
    expect((await push(jobs)).status).toBe(201)
    const got = new Set<string>()
    while (got.size < 20) got.add((await fetchOne(gateway, queue)).id)
    expect(got).toEqual(new Set(jobs.map(({ id }) => id)))
  })
})

describe('a batch that was refused', () => {
  it('may be sent again with the same ids', async () => {
    const jobs = items(3)
    const bad = { ...jobs[1], type: 'not a type' }
    expect((await push([jobs[0] ?? bad, bad, jobs[2] ?? bad])).status).toBe(400)
    expect((await push(jobs)).status).toBe(201)
    const got = await fetchMany(gateway, queue, 3)
    expect(got.map((job) => job.id)).toEqual(jobs.map(({ id }) => id))
    for (const { id } of jobs) await gateway.ack(id)
    expect(await queueMessages(vhost.url, `ojs.queue.${queue}`)).toEqual([])
  })
})
