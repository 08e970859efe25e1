import { v7 } from 'uuid'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  chain,
  type Fetch,
  HttpTransport,
  type Job,
  type Manifest,
  OJSClient,
  OJSConflictError,
  OJSDuplicateError,
  OJSNotFoundError,
  OJSTransportError,
  OJSUnsupportedError,
  OJSValidationError,
} from '../../../src/sdk/index.ts'
import { freshQueue, serverForAll } from '../server.ts'

const server = serverForAll()
let client: OJSClient
let queue: string
beforeEach(() => {
  client = new OJSClient({ url: server.url })
  queue = freshQueue()
})

/** Sends a request of a worker. */
async function sendAsWorker(
  verb: 'fetch' | 'ack' | 'nack',
  body: object,
): Promise<{ jobs?: Job[] }> {
  const path = `/workers/${verb}`
  return (await new HttpTransport({ url: server.url }).request({ method: 'POST', path, body }))
    .body as { jobs?: Job[] }
}

async function fetchOne(): Promise<Job> {
  const { jobs = [] } = await sendAsWorker('fetch', {
    queues: [queue],
    worker_id: 'w',
    wait_ms: 10_000,
  })
  const [job] = jobs
  if (!job) throw new Error('no job came')
  return job
}

describe('OJSClient on a server', () => {
  test('enqueues a job and reads its result after a worker has acknowledged it', async () => {
    const job = await client.enqueue(
      'email.send',
      { to: 'a@b.c' },
      { queue, meta: { fromTest: 1 } },
    )
    expect(job).toMatchObject({
      type: 'email.send',
      state: 'available',
      queue,
      args: [{ to: 'a@b.c' }],
      meta: { fromTest: 1 },
      attempt: 0,
    })
    const fetched = await fetchOne()
    expect(fetched).toMatchObject({ id: job.id, attempt: 1, args: [{ to: 'a@b.c' }] })
    expect(await client.getJob(job.id)).toMatchObject({ state: 'active' })
    await sendAsWorker('ack', {
      job_id: job.id,
      worker_id: 'w',
      attempt: 1,
      result: { sent: true },
    })
    expect(await client.getJob(job.id)).toMatchObject({
      state: 'completed',
      result: { sent: true },
      completed_at: expect.stringMatching(/Z$/),
    })
    await expect(client.cancelJob(job.id)).rejects.toMatchObject({
      name: 'OJSConflictError',
      currentState: 'completed',
      status: 409,
    })
  })

  test('marks a job as deduplicated if onConflict: ignore returned the existing one', async () => {
    const options = { queue, unique: { onConflict: 'ignore' as const } }
    const first = await client.enqueue('t', [queue], options)
    expect(first.deduplicated).toBeUndefined()
    expect(await client.enqueue('t', [queue], options)).toMatchObject({
      id: first.id,
      deduplicated: true,
    })
    const [again, other] = await client.enqueueBatch([
      { type: 't', args: [queue], options },
      { type: 't', args: ['other'], options: { queue } },
    ])
    expect(again).toMatchObject({ id: first.id, deduplicated: true })
    expect(other?.deduplicated).toBeUndefined()
  })

  test('stores one job for repeated calls with the same Idempotency-Key, also when an answer is lost', async () => {
    const call = { headers: { 'Idempotency-Key': queue } }
    const first = await client.enqueue('t', [1], { queue }, call)
    expect(await client.enqueue('t', [1], { queue }, call)).toMatchObject({ id: first.id })
    await expect(client.enqueue('t', [2], { queue }, call)).rejects.toBeInstanceOf(
      OJSDuplicateError,
    )
    let sent = 0
    const fetch: Fetch = async (url, init) => {
      sent += 1
      const answer = await globalThis.fetch(url, init)
      if (sent > 1) return answer
      await answer.text()
      throw new TypeError('fetch failed')
    }
    const lossy = new OJSClient({ url: server.url, fetch })
    const other = { headers: { 'Idempotency-Key': `${queue}-lost` } }
    const job = await lossy.enqueue('t', [3], { queue }, other)
    expect(sent).toBe(2)
    expect(await client.getJob(job.id)).toMatchObject({ args: [3] })
    const { stats } = await client.queues.stats(queue)
    expect(stats.available).toBe(2)
  })

  test('sends every option so that the server stores it', async () => {
    const job = await client.enqueue('t', [1], {
      queue,
      priority: 7,
      timeoutMs: 12_345,
      visibilityTimeoutMs: 23_456,
      delayUntil: new Date('2040-01-02T03:04:05.678Z'),
      expiresAt: '2041-01-01T00:00:00.000Z',
      tags: ['a', 'b'],
      retry: { maxAttempts: 7, initialIntervalMs: 1_500, backoffCoefficient: 3, jitter: false },
    })
    expect(await client.getJob(job.id)).toMatchObject({
      state: 'scheduled',
      priority: 7,
      timeout_ms: 12_345,
      visibility_timeout_ms: 23_456,
      scheduled_at: '2040-01-02T03:04:05.678Z',
      expires_at: '2041-01-01T00:00:00.000Z',
      tags: ['a', 'b'],
      max_attempts: 7,
      retry: { backoff_coefficient: 3, jitter: false },
    })
  })

  test('activates a pending job, which can then be fetched', async () => {
    const job = await client.enqueue('t', [], { queue, pending: true })
    expect(job.state).toBe('pending')
    expect(await client.activateJob(job.id)).toMatchObject({ state: 'available' })
    expect((await fetchOne()).id).toBe(job.id)
  })

  test('cancels a job once; a second cancel rejects with OJSConflictError', async () => {
    const job = await client.enqueue('t', [], { queue })
    expect(await client.cancelJob(job.id)).toMatchObject({ id: job.id, state: 'cancelled' })
    expect(await client.getJob(job.id)).toMatchObject({ state: 'cancelled' })
    await expect(client.cancelJob(job.id)).rejects.toBeInstanceOf(OJSConflictError)
  })

  test('enqueues a batch of 25 jobs in order', async () => {
    const specs = Array.from({ length: 25 }, (_, n) => ({
      type: 't',
      args: { n },
      options: { queue },
    }))
    const jobs = await client.enqueueBatch(specs)
    expect(jobs.map(({ args }) => args)).toEqual(specs.map(({ args }) => [args]))
    const last = jobs.at(-1)
    expect(await client.getJob(last?.id ?? '')).toMatchObject({ args: [{ n: 24 }], queue })
  })

  test('lists, retries and deletes a job that became a dead letter', async () => {
    const retry = { maxAttempts: 1, onExhaustion: 'dead_letter' } as const
    const { id } = await client.enqueue('t', [], { queue, retry })
    const fail = async () => {
      await fetchOne()
      await sendAsWorker('nack', {
        job_id: id,
        error: { code: 'handler_error', message: 'broken' },
      })
    }
    await fail()
    const { jobs, pagination } = await client.deadLetters.list({ queue, limit: 1 })
    expect(jobs).toMatchObject([{ id, state: 'discarded' }])
    expect(pagination).toMatchObject({ total: 1, limit: 1, offset: 0, has_more: false })
    expect(await client.deadLetters.retry(id)).toMatchObject({ id, state: 'available' })
    await fail()
    expect(await client.deadLetters.delete(id)).toEqual({ deleted: true, job_id: id })
    expect((await client.deadLetters.list({ queue })).jobs).toEqual([])
    await expect(client.deadLetters.delete(id)).rejects.toBeInstanceOf(OJSNotFoundError)
  })

  test('stores jobs as its enqueue middleware changed them', async () => {
    client.use(async (request, next) => {
      request.meta = { ...request.meta, trace_id: 'abc' }
      await next()
    })
    const single = await client.enqueue('t', [], { queue })
    const [batched] = await client.enqueueBatch([{ type: 't', options: { queue } }])
    for (const job of [single, batched]) {
      expect(await client.getJob(job?.id ?? '')).toMatchObject({ meta: { trace_id: 'abc' } })
    }
  })
})

describe('OJSClient whose first answer is lost', () => {
  /** A `fetch` that loses the first answer to a request other than GET, after the server handled it. */
  function losingAnswers(): { fetch: Fetch; posts: () => number } {
    let posts = 0
    return {
      posts: () => posts,
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (init.method !== 'GET') posts += 1
        if (posts === 1 && init.method !== 'GET') {
          await response.text()
          throw new TypeError('fetch failed')
        }
        return response
      },
    }
  }

  test('enqueue repeats the request, and one job is stored and returned', async () => {
    const { fetch, posts } = losingAnswers()
    const losing = new OJSClient({ url: server.url, fetch })
    const job = await losing.enqueue('t', [1], { queue })
    expect(posts()).toBe(2)
    expect((await fetchOne()).id).toBe(job.id)
    expect(await sendAsWorker('fetch', { queues: [queue], wait_ms: 200 })).toMatchObject({
      jobs: [],
    })
  })

  test('enqueueBatch repeats the request, and each job is stored once and returned', async () => {
    const { fetch, posts } = losingAnswers()
    const losing = new OJSClient({ url: server.url, fetch })
    const specs = [1, 2, 3].map((n) => ({ type: 't', args: n, options: { queue } }))
    const jobs = await losing.enqueueBatch(specs)
    expect(posts()).toBe(2)
    expect(jobs.map(({ args }) => args)).toEqual([[1], [2], [3]])
    const ids = [await fetchOne(), await fetchOne(), await fetchOne()].map(({ id }) => id)
    const more = await sendAsWorker('fetch', { queues: [queue], count: 10, wait_ms: 500 })
    expect(more.jobs).toEqual([])
    expect(ids.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(
      jobs.map(({ id }) => id).toSorted((a, b) => (a < b ? -1 : 1)),
    )
  })

  test('workflow repeats the request, and one workflow is stored and returned', async () => {
    const { fetch, posts } = losingAnswers()
    const losing = new OJSClient({ url: server.url, fetch })
    if ((await losing.manifest()).capabilities['workflows'] !== true) return
    const step = { type: 't', args: [], options: { queue } }
    const workflow = await losing.workflow({ ...chain(step), name: queue })
    expect(posts()).toBe(2)
    expect((await client.workflows.get(workflow.id)).name).toBe(queue)
    await fetchOne()
    expect((await sendAsWorker('fetch', { queues: [queue], wait_ms: 200 })).jobs).toEqual([])
  })

  test('cancelJob repeats the request and returns the cancelled job', async () => {
    const { id } = await client.enqueue('t', [], { queue })
    const { fetch, posts } = losingAnswers()
    const losing = new OJSClient({ url: server.url, fetch })
    expect(await losing.cancelJob(id)).toMatchObject({ id, state: 'cancelled' })
    expect(posts()).toBe(2)
  })

  test('enqueue rejects with OJSDuplicateError for an id that another job has', async () => {
    const id = v7()
    await client.enqueue('first', [], { queue, id })
    const thrown = await client.enqueue('second', [], { queue, id }).catch((e: unknown) => e)
    expect(thrown).toBeInstanceOf(OJSDuplicateError)
    expect(thrown).toMatchObject({ existingJobId: id, status: 409, retryable: false })
  })
})

describe('OJSClient on a server that refuses', () => {
  test('rejects an invalid type with OJSValidationError, with its index in a batch', async () => {
    const thrown = await client.enqueue('not a type!', [], { queue }).catch((e: unknown) => e)
    expect(thrown).toBeInstanceOf(OJSValidationError)
    expect(thrown).toMatchObject({
      code: 'invalid_request',
      status: 400,
      retryable: false,
      requestId: expect.stringMatching(/./),
    })
    const batch = [{ type: 't', options: { queue } }, { type: '' }]
    await expect(client.enqueueBatch(batch)).rejects.toMatchObject({
      name: 'OJSValidationError',
      details: { index: 1 },
    })
  })

  test('rejects an unknown job id with OJSNotFoundError', async () => {
    const id = v7()
    await expect(client.getJob(id)).rejects.toMatchObject({
      name: 'OJSNotFoundError',
      code: 'not_found',
      status: 404,
    })
    await expect(client.cancelJob(id)).rejects.toBeInstanceOf(OJSNotFoundError)
  })

  test("has the caller's X-Request-Id in the error", async () => {
    const call = { headers: { 'X-Request-Id': `req_${v7()}` } }
    await expect(client.getJob(v7(), call)).rejects.toMatchObject({
      requestId: call.headers['X-Request-Id'],
    })
  })

  test('rejects with OJSTransportError if nothing listens at its URL', async () => {
    const lonely = new OJSClient({ url: 'http://127.0.0.1:9', retry: false })
    await expect(lonely.getJob(v7())).rejects.toBeInstanceOf(OJSTransportError)
  })
})

describe('OJSClient administering a server', () => {
  test('reads health and manifest', async () => {
    expect(await client.health()).toMatchObject({ status: 'ok' })
    expect(await client.manifest()).toMatchObject({
      ojs_version: expect.stringMatching(/^1\./),
      protocols: expect.arrayContaining(['http']),
    })
  })

  test('reads the list of queues page by page', async () => {
    await client.enqueue('t', [], { queue })
    const { queues, pagination } = await client.queues.list({ limit: 1 })
    expect(queues).toHaveLength(1)
    expect(pagination).toMatchObject({ limit: 1, offset: 0 })
    const seen = new Set<string>()
    for (let offset = 0; offset < pagination.total; offset += 100) {
      const page = await client.queues.list({ limit: 100, offset })
      for (const { name } of page.queues) seen.add(name)
    }
    expect(seen).toContain(queue)
  })

  test('lists workers and sends them the directives quiet and terminate', async () => {
    const id = `w-${queue}`
    await sendAsWorker('fetch', { queues: [queue], worker_id: id })
    const { items } = await client.workers.list({ limit: 100 })
    expect(items.map((worker) => worker.id)).toContain(id)
    await client.workers.quiet(id)
    await client.enqueue('t', [], { queue })
    const fetched = await sendAsWorker('fetch', { queues: [queue], worker_id: id, wait_ms: 200 })
    expect(fetched.jobs).toEqual([])
    expect(await client.workers.terminate(id)).toMatchObject({ worker: { directive: 'terminate' } })
  })

  /** If the manifest has the capability, the call must work; else it must reject with OJSUnsupportedError. */
  async function ifOffered<T>(
    capability: keyof Manifest['capabilities'],
    call: () => Promise<T>,
    check: (result: T) => void,
  ): Promise<void> {
    const { capabilities } = await client.manifest()
    if (capabilities[capability] === true) check(await call())
    else await expect(call()).rejects.toBeInstanceOf(OJSUnsupportedError)
  }

  test('starts a workflow, if the server offers workflows', async () => {
    const step = { type: 't', args: { x: 1 }, options: { queue } }
    await ifOffered(
      'workflows',
      () => client.workflow(chain(step, step)),
      (workflow) => expect(workflow.id).toMatch(/./),
    )
  })

  test('registers and deletes a cron entry, if the server offers cron', async () => {
    const spec = { name: queue, cron: '0 9 * * *', type: 't', options: { queue } }
    await ifOffered(
      'cron_jobs',
      async () => {
        const registered = await client.cron.register(spec)
        await client.cron.delete(queue)
        return registered
      },
      (registered) => expect(registered).toMatchObject({ name: queue, type: 't' }),
    )
  })

  test('registers, reads and deletes a schema, if the server offers schemas', async () => {
    const uri = `urn:ojs:schema:${queue}:v1`
    const schema = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'array' }
    await ifOffered(
      'schema_validation',
      async () => {
        await client.schemas.register({ uri, type: 't', version: 1, schema })
        const read = await client.schemas.get(uri)
        await client.schemas.delete(uri)
        return read
      },
      (read) => expect(read).toMatchObject({ uri, schema }),
    )
  })

  test('pauses and resumes a queue and reads its stats, if the server offers it', async () => {
    await client.enqueue('t', [], { queue })
    await ifOffered(
      'pause_resume',
      async () => {
        const paused = await client.queues.pause(queue)
        const stats = await client.queues.stats(queue)
        await client.queues.resume(queue)
        return { paused, stats }
      },
      ({ paused, stats }) => {
        expect(paused.status).toBe('paused')
        expect(stats.stats['available']).toBe(1)
      },
    )
  })
})
