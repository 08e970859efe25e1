import { describe, expect, it } from 'vitest'
import { fetchOne, freshQueue, gatewayForAll } from '../operations/harness.ts'
import { expectAsPrinted } from './printed.ts'

const { gateway } = gatewayForAll()

const NONE = '019414d4-0000-7000-8000-000000000000'
const JOBS = '/ojs/v1/jobs'

/** The job that seed 001 §9.1 prints, in a queue of the test. */
function printedJob(queue: string, options: object = {}): object {
  return {
    type: 'email.send',
    args: ['user@example.com', 'welcome', { locale: 'en' }],
    meta: { trace_id: 'trace_abc123def456', source: 'signup-service' },
    options: {
      queue,
      priority: 0,
      timeout_ms: 30000,
      retry: {
        max_attempts: 5,
        initial_interval_ms: 1000,
        backoff_coefficient: 2.0,
        max_interval_ms: 300000,
        jitter: true,
      },
      tags: ['onboarding', 'email'],
      ...options,
    },
  }
}

async function pushed(options: object = {}): Promise<{ id: string; queue: string }> {
  const queue = freshQueue()
  const { status, body } = await gateway.request('POST', JOBS, printedJob(queue, options))
  expect(status, JSON.stringify(body)).toBe(201)
  return { id: body.job.id, queue }
}

/** Returns a queue that is paused. */
async function pausedQueue(): Promise<string> {
  const { queue } = await pushed()
  await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`)
  return queue
}

/** A job whose args have one item more than the schema that it names allows. */
async function breakingItsSchema(): Promise<object> {
  const registration = { uri: 'urn:ojs:schema:binding:v1', type: 'binding.job', version: 1 }
  const schema = { $schema: 'https://json-schema.org/draft/2020-12/schema', maxItems: 1 }
  const { status } = await gateway.request('POST', '/ojs/v1/schemas', { ...registration, schema })
  expect([200, 201]).toContain(status)
  return { type: registration.type, args: [1, 2], schema: registration.uri }
}

const wrongArgs = { type: 'email.send', args: { x: 1 } }
const invalid = { status: 400, body: { error: { code: 'invalid_request', retryable: false } } }

describe('POST /ojs/v1/jobs', () => {
  it('201: stores a job and answers its Location, as printed in §9.1', async () => {
    const answer = await gateway.request('POST', JOBS, printedJob(freshQueue()))
    expectAsPrinted(answer, '9.1 201')
    expect(answer.headers.get('Location')).toBe(`${JOBS}/${answer.body.job.id}`)
  })

  it('201: has the X-Request-Id of the client, as printed in §19.4', async () => {
    const headers = { 'X-Request-Id': 'my-app-trace-12345' }
    const answer = await gateway.request('POST', JOBS, printedJob(freshQueue()), headers)
    expectAsPrinted(answer, '19.4 201')
    expect(answer.headers.get('X-Request-Id')).toBe('my-app-trace-12345')
  })

  it('400 invalid_request: args that are no array, as printed in §9.1', async () => {
    expectAsPrinted(await gateway.request('POST', JOBS, wrongArgs), '9.1 400')
  })

  it('400 schema_validation: args that do not match the registered schema', async () => {
    const answer = await gateway.request('POST', JOBS, await breakingItsSchema())
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'schema_validation', retryable: false } },
    })
  })

  it('409 duplicate: an id that exists', async () => {
    const { id } = await pushed()
    expect(await gateway.request('POST', JOBS, { id, type: 'a', args: [] })).toMatchObject({
      status: 409,
      body: { error: { code: 'duplicate', details: { existing_job_id: id } } },
    })
  })

  it('409 duplicate: a unique key that is taken, as printed in §9.1', async () => {
    const unique = { keys: ['type', 'args'], on_conflict: 'reject' }
    const { id, queue } = await pushed({ unique })
    const answer = await gateway.request('POST', JOBS, printedJob(queue, { unique }))
    expectAsPrinted(answer, '9.1 409')
    expect(answer.body.error.details.existing_job_id).toBe(id)
  })

  it('422 queue_paused: as printed in §11.3', async () => {
    const job = printedJob(await pausedQueue())
    expectAsPrinted(await gateway.request('POST', JOBS, job), '11.3 422')
  })
})

describe('POST /ojs/v1/jobs/batch', () => {
  it('201: stores all jobs, as printed in §9.2', async () => {
    const queue = freshQueue()
    const jobs = [printedJob(queue), printedJob(queue), printedJob(queue)]
    const answer = await gateway.request('POST', `${JOBS}/batch`, { jobs })
    expectAsPrinted(answer, '9.2 201')
    expect(answer.body.count).toBe(3)
  })

  it('400 invalid_request: no job is stored if one has no type, as printed in §9.2', async () => {
    const queue = freshQueue()
    const jobs = [printedJob(queue), { args: [], options: { queue } }]
    expectAsPrinted(await gateway.request('POST', `${JOBS}/batch`, { jobs }), '9.2 400')
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('400 schema_validation: no job is stored if the args of one do not match its schema', async () => {
    const queue = freshQueue()
    const jobs = [printedJob(queue), await breakingItsSchema()]
    expect(await gateway.request('POST', `${JOBS}/batch`, { jobs })).toMatchObject({
      status: 400,
      body: { error: { code: 'schema_validation', details: { index: 1 } } },
    })
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('409 duplicate: no job is stored if the id of one exists', async () => {
    const { id } = await pushed()
    const queue = freshQueue()
    const jobs = [printedJob(queue), { id, type: 'a', args: [], options: { queue } }]
    expect(await gateway.request('POST', `${JOBS}/batch`, { jobs })).toMatchObject({
      status: 409,
      body: { error: { code: 'duplicate', details: { index: 1, existing_job_id: id } } },
    })
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('422 queue_paused: no job is stored if one is for a paused queue', async () => {
    const queue = freshQueue()
    const jobs = [printedJob(queue), printedJob(await pausedQueue())]
    expectAsPrinted(await gateway.request('POST', `${JOBS}/batch`, { jobs }), '11.3 422')
    expect(await gateway.fetch([queue])).toEqual([])
  })
})

describe('GET /ojs/v1/jobs/:id', () => {
  it('200: the whole job, as printed in §9.3', async () => {
    const { id, queue } = await pushed()
    await fetchOne(gateway, queue)
    await gateway.ack(id, { result: { message_id: 'msg', delivered: true } })
    expectAsPrinted(await gateway.get(id), '9.3 200')
  })

  it('404 not_found: as printed in §9.3', async () => {
    expectAsPrinted(await gateway.get(NONE), '9.3 404')
  })

  it('404 not_found: an existing id with a NUL and more behind it', async () => {
    const { id } = await pushed()
    expect((await gateway.get(`${id}%00x`)).status).toBe(404)
    expect((await gateway.cancel(`${id}%00x`)).status).toBe(404)
    expect((await gateway.get(id)).body.job.state).toBe('available')
  })
})

describe('DELETE /ojs/v1/jobs/:id', () => {
  it('200: cancels the job, as printed in §9.4', async () => {
    const { id } = await pushed()
    expectAsPrinted(await gateway.cancel(id), '9.4 200')
  })

  it('404 not_found: an unknown job', async () => {
    expectAsPrinted(await gateway.cancel(NONE), '9.3 404')
  })

  it('409 invalid_request: a job that has ended, as printed in §9.4', async () => {
    const { id, queue } = await pushed()
    await fetchOne(gateway, queue)
    await gateway.ack(id)
    expectAsPrinted(await gateway.cancel(id), '9.4 409')
  })
})

describe('POST /ojs/v1/jobs/:id/activate', () => {
  const activate = (id: string) => gateway.request('POST', `${JOBS}/${id}/activate`)

  it('200: makes a staged job available, as printed in §9.5', async () => {
    const { id } = await pushed({ pending: true })
    expectAsPrinted(await activate(id), '9.5 200')
  })

  it('400 invalid_request: a body that is no object', async () => {
    const { id } = await pushed({ pending: true })
    const answer = await gateway.request('POST', `${JOBS}/${id}/activate`, [1])
    expect(answer).toMatchObject(invalid)
  })

  it('404 not_found: as printed in §9.5', async () => {
    expectAsPrinted(await activate(NONE), '9.5 404')
  })

  it('409 invalid_request: a job that is not pending, as printed in §9.5', async () => {
    const { id } = await pushed()
    expectAsPrinted(await activate(id), '9.5 409')
  })
})
