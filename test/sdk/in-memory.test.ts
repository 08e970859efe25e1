import { beforeEach, describe, expect, test } from 'vitest'
import { BACKOFF_STRATEGIES } from '../../src/job/request.ts'
import { chooseDelay } from '../../src/job/retry/backoff.ts'
import { retryPolicyOf } from '../../src/job/retry/retry-policy.ts'
import {
  InMemoryTransport,
  type Job,
  OJSClient,
  OJSConflictError,
  OJSDuplicateError,
  OJSNotFoundError,
  OJSUnsupportedError,
  OJSValidationError,
  OJSWorker,
} from '../../src/sdk/index.ts'

type Strategy = (typeof BACKOFF_STRATEGIES)[number]

let memory: InMemoryTransport
let client: OJSClient
beforeEach(() => {
  memory = new InMemoryTransport()
  client = new OJSClient({ transport: memory })
})

async function worker(verb: string, body: object): Promise<Record<string, unknown>> {
  const { body: answer } = await memory.request({ method: 'POST', path: `/workers/${verb}`, body })
  return answer as Record<string, unknown>
}

async function fetched(over: object = {}): Promise<Job[]> {
  return (await worker('fetch', { queues: ['default'], ...over }))['jobs'] as Job[]
}

const failed = (job: Job, error: object = {}) =>
  worker('nack', { job_id: job.id, error: { code: 'handler_error', message: 'm', ...error } })

describe('InMemoryTransport with concurrency keys', () => {
  test('hands out no more jobs of a key than its limit, and others at once', async () => {
    const enqueue = (n: number, concurrency?: { key?: string; limit: number }) =>
      client.enqueue('a', [n], concurrency ? { concurrency } : {})
    for (const n of [1, 2, 3]) await enqueue(n, { key: 'k', limit: 2 })
    for (const n of [4, 5]) await enqueue(n, { limit: 1 })
    await enqueue(6)
    const argsOf = (jobs: Job[]) => jobs.map(({ args }) => args[0])
    const jobs = await fetched({ count: 10 })
    expect(argsOf(jobs)).toEqual([1, 2, 4, 6])
    expect(await fetched({ count: 10 })).toEqual([])
    await worker('ack', { job_id: jobs[0]?.id })
    expect(argsOf(await fetched({ count: 10 }))).toEqual([3])
    await failed(jobs[2] as Job)
    expect(argsOf(await fetched({ count: 10 }))).toEqual([5])
  })
})

describe('InMemoryTransport as a server that takes many reports at once', () => {
  test('answers each item as its own request', async () => {
    for (let i = 0; i < 4; i++) await client.enqueue('a')
    const [a, b, c] = await fetched({ count: 3, worker_id: 'w' })
    const error = { code: 'e', message: 'm', retryable: false }
    const items = [
      { action: 'ack', job_id: a?.id, result: 1 },
      { action: 'nack', job_id: b?.id, error },
      { action: 'ack', job_id: a?.id },
      { action: 'ack', job_id: c?.id, worker_id: 'another' },
      { action: 'ack', job_id: 'unknown' },
    ]
    expect((await worker('settle', { worker_id: 'w', items }))['items']).toMatchObject([
      { status: 200, job_id: a?.id, state: 'completed' },
      { status: 200, job_id: b?.id, state: 'discarded' },
      { status: 409, error: { details: { current_state: 'completed' } } },
      { status: 409, job_id: c?.id },
      { status: 404, error: { code: 'not_found' } },
    ])
    expect(memory.jobs.map(({ state }) => state)).toEqual([
      'completed',
      'discarded',
      'active',
      'available',
    ])
    await expect(worker('settle', { items: [] })).rejects.toBeInstanceOf(OJSValidationError)
  })

  test('a worker with many slots settles all its jobs', async () => {
    const paths: string[] = []
    const transport = {
      request: (request: Parameters<InMemoryTransport['request']>[0]) => {
        paths.push(request.path)
        return memory.request(request)
      },
    }
    for (let i = 0; i < 60; i++) await client.enqueue('a')
    const running = new OJSWorker({ transport, concurrency: 60, handleSignals: false })
    running.register('a', () => 'done')
    await running.start()
    await expect.poll(() => memory.jobs.every(({ state }) => state === 'completed')).toBe(true)
    await running.stop()
    expect(paths).toContain('/workers/settle')
    expect(paths.filter((path) => /ack|settle/.test(path)).length).toBeLessThan(30)
  })
})

describe('InMemoryTransport behind a client', () => {
  test('enqueues, reads and cancels', async () => {
    const job = await client.enqueue('email.send', { to: 'a' }, { queue: 'email', meta: { x: 1 } })
    expect(await client.getJob(job.id)).toMatchObject({
      type: 'email.send',
      args: [{ to: 'a' }],
      queue: 'email',
      meta: { x: 1 },
      state: 'available',
      attempt: 0,
    })
    expect(memory.jobs.map(({ id }) => id)).toEqual([job.id])
    expect(await client.cancelJob(job.id)).toMatchObject({ state: 'cancelled' })
    await expect(client.cancelJob(job.id)).rejects.toBeInstanceOf(OJSConflictError)
    await expect(client.getJob('unknown')).rejects.toBeInstanceOf(OJSNotFoundError)
  })

  test('rejects a call whose signal has fired, and changes nothing', async () => {
    const signal = AbortSignal.abort('enough')
    const aborted = { name: 'OJSTransportError', kind: 'aborted', cause: 'enough' }
    await expect(client.enqueue('a', [], {}, { signal })).rejects.toMatchObject(aborted)
    expect(memory.jobs).toEqual([])
    const { id } = await client.enqueue('a')
    await expect(client.cancelJob(id, { signal })).rejects.toMatchObject(aborted)
    await expect(client.getJob(id, { signal })).rejects.toMatchObject(aborted)
    expect(memory.jobs).toMatchObject([{ id, state: 'available' }])
  })

  test('stores all jobs of a batch or none', async () => {
    expect(await client.enqueueBatch([{ type: 'a' }, { type: 'b' }])).toHaveLength(2)
    await expect(client.enqueueBatch([{ type: 'a' }, { type: '!' }])).rejects.toMatchObject({
      name: 'OJSValidationError',
      details: { index: 1 },
    })
    const { id } = await new OJSClient({ transport: new InMemoryTransport() }).enqueue('c')
    const twice = memory.request({
      method: 'POST',
      path: '/jobs/batch',
      body: { jobs: [id, id].map((same) => ({ id: same, type: 'c', args: [] })) },
    })
    await expect(twice).rejects.toBeInstanceOf(OJSDuplicateError)
    expect(memory.jobs).toHaveLength(2)
  })

  test('refuses an id that exists with another type, and returns the job for the same type', async () => {
    const { id } = await client.enqueue('a')
    expect((await client.enqueue('a', [], { id })).id).toBe(id)
    await expect(client.enqueue('b', [], { id })).rejects.toBeInstanceOf(OJSDuplicateError)
    await expect(client.enqueue('b', [], { id: 'x' })).rejects.toBeInstanceOf(OJSValidationError)
  })

  test('answers health, manifest and queues, and OJSUnsupportedError for cron and pause', async () => {
    await client.enqueue('a', [], { queue: 'email' })
    expect(await client.health()).toMatchObject({ status: 'ok' })
    expect(await client.manifest()).toMatchObject({ backend: 'memory' })
    const { queues } = await client.queues.list()
    expect(queues.map(({ name }) => name)).toEqual(['default', 'email'])
    await expect(client.cron.list()).rejects.toBeInstanceOf(OJSUnsupportedError)
    await expect(client.queues.pause('email')).rejects.toBeInstanceOf(OJSUnsupportedError)
  })

  test('keeps its own copy of a job: later changes by the caller do not show', async () => {
    const args = [{ deep: 1 }]
    const job = await client.enqueue('a', args)
    args[0] = { deep: 2 }
    job.state = 'completed'
    expect(await client.getJob(job.id)).toMatchObject({ state: 'available', args: [{ deep: 1 }] })
  })
})

describe('InMemoryTransport behind a worker', () => {
  test('FETCH takes queues in the given order, then the highest priority, then the oldest job', async () => {
    await client.enqueue('low')
    await client.enqueue('high', [], { priority: 5 })
    await client.enqueue('low2')
    await client.enqueue('other', [], { queue: 'other' })
    const jobs = await fetched({ queues: ['other', 'default'], count: 10 })
    expect(jobs.map(({ type }) => type)).toEqual(['other', 'high', 'low', 'low2'])
    expect(jobs[0]).toMatchObject({ state: 'active', attempt: 1 })
    expect(await fetched()).toEqual([])
  })

  test('ACK completes a job; a second ACK, or one of another attempt or worker, is a conflict', async () => {
    const { id } = await client.enqueue('a')
    await fetched({ worker_id: 'w1' })
    await expect(worker('ack', { job_id: id, worker_id: 'w2' })).rejects.toMatchObject({
      currentState: 'active',
    })
    await expect(worker('ack', { job_id: id, attempt: 2 })).rejects.toBeInstanceOf(OJSConflictError)
    expect(await worker('ack', { job_id: id, result: false })).toMatchObject({
      acknowledged: true,
      state: 'completed',
    })
    expect(await client.getJob(id)).toMatchObject({ state: 'completed', result: false })
    await expect(worker('ack', { job_id: id })).rejects.toMatchObject({ currentState: 'completed' })
  })

  test("heartbeat extends a lease by the job's visibility timeout, or by that of its FETCH", async () => {
    const own = await client.enqueue('own', [], { visibilityTimeoutMs: 1_000 })
    const asked = await client.enqueue('asked', [], { visibilityTimeoutMs: 1_000 })
    await fetched()
    await fetched({ visibility_timeout_ms: 90_000 })
    await worker('heartbeat', { worker_id: 'w', active_jobs: [own.id, asked.id] })
    memory.advance(60_000)
    expect(memory.jobs).toMatchObject([{ state: 'available' }, { state: 'active' }])
  })

  const DELAYS: Record<Strategy, readonly number[]> = {
    exponential: [1_000, 3_000, 9_000],
    linear: [1_000, 2_000, 3_000],
    polynomial: [1_000, 8_000, 27_000],
    none: [1_000, 1_000, 1_000],
    constant: [1_000, 1_000, 1_000],
  }

  test.each(BACKOFF_STRATEGIES)(
    '%s backoff makes the delays that the gateway makes',
    async (strategy) => {
      const expected = DELAYS[strategy]
      const retry = {
        maxAttempts: 9,
        initialIntervalMs: 1_000,
        backoffCoefficient: 3,
        backoffStrategy: strategy,
        jitter: false,
      }
      const { backoff } = retryPolicyOf({
        maxAttempts: 9,
        envelope: JSON.stringify({
          retry: { initial_interval: 'PT1S', backoff_coefficient: 3, jitter: false },
          retry_extra: { backoff_strategy: strategy },
        }),
      })
      const gateway = [1, 2, 3].map((attempt) => chooseDelay(backoff, attempt, () => 0).delayMs)
      expect(gateway).toEqual(expected)
      await client.enqueue('a', [], { retry })
      const delays: unknown[] = []
      for (let i = 0; i < 3; i++) {
        const [job] = await fetched()
        if (!job) throw new Error('no job')
        delays.push((await failed(job))['retry_delay_ms'])
        memory.advance(30_000)
      }
      expect(delays).toEqual(expected)
    },
  )

  test('a job that succeeds after a failure has no error, only its history of errors', async () => {
    const { id } = await client.enqueue('a', [], { retry: { maxAttempts: 1 } })
    const [job] = await fetched()
    if (!job) throw new Error('no job')
    await failed(job)
    expect(await client.deadLetters.retry(id)).not.toHaveProperty('error')
    await fetched()
    await worker('ack', { job_id: id })
    expect(memory.jobs).toMatchObject([{ state: 'completed', errors: [{ attempt: 1 }] }])
    expect(memory.jobs[0]).not.toHaveProperty('error')
  })

  test('FETCH returns a job once although it names the queue twice', async () => {
    await client.enqueue('a')
    expect(await fetched({ queues: ['default', 'default'], count: 2 })).toHaveLength(1)
  })

  test('a failed job is available again when its retry is due, and is a dead letter after its last attempt', async () => {
    const retry = { maxAttempts: 2, initialIntervalMs: 60_000 }
    const { id } = await client.enqueue('a', [], { retry })
    const [first] = await fetched()
    if (!first) throw new Error('no job')
    expect(await failed(first)).toMatchObject({ state: 'retryable', retry_delay_ms: 60_000 })
    expect(await fetched()).toEqual([])
    memory.advance(60_000)
    const [second] = await fetched()
    if (!second) throw new Error('no job')
    expect(second).toMatchObject({ id, attempt: 2 })
    expect(await failed(second)).toMatchObject({ state: 'discarded', attempt: 2 })
    const { jobs } = await client.deadLetters.list()
    expect(jobs).toMatchObject([{ id, errors: [{ attempt: 1 }, { attempt: 2 }] }])
    const retried = await client.deadLetters.retry(id)
    expect(retried).toMatchObject({ state: 'available', attempt: 0 })
    expect(retried).not.toHaveProperty('discarded_at')
  })

  test('a late report from before the retry of a dead letter is a conflict by its generation', async () => {
    const { id } = await client.enqueue('a', [], { retry: { maxAttempts: 1 } })
    const [first] = await fetched()
    if (!first) throw new Error('no job')
    expect(first).not.toHaveProperty('generation')
    await failed(first)
    await client.deadLetters.retry(id)
    expect(await fetched()).toMatchObject([{ id, attempt: 1, generation: 1 }])
    const late = { job_id: id, attempt: 1, generation: 0 }
    await expect(worker('ack', late)).rejects.toBeInstanceOf(OJSConflictError)
    expect(await worker('ack', { ...late, generation: 1 })).toMatchObject({ state: 'completed' })
  })

  test('dead letters are listed newest first', async () => {
    const retry = { maxAttempts: 1 }
    const [first, second, third] = await Promise.all(
      ['a', 'b', 'c'].map((type) => client.enqueue(type, [], { retry })),
    )
    const listed = async () => (await client.deadLetters.list()).jobs.map(({ id }) => id)
    const jobs = await fetched({ count: 3 })
    for (const job of jobs.toReversed()) await failed(job)
    expect(await listed()).toEqual([first?.id, second?.id, third?.id])
    await client.deadLetters.retry(String(second?.id))
    for (const job of await fetched()) await failed(job)
    expect(await listed()).toEqual([second?.id, first?.id, third?.id])
    const page = await client.deadLetters.list({ limit: 1, offset: 1 })
    expect(page.jobs).toMatchObject([{ id: first?.id }])
  })

  test('a job that is given back with requeue has not used an attempt', async () => {
    const { id } = await client.enqueue('a', [], { retry: { maxAttempts: 1 } })
    await fetched()
    const error = { code: 'shutdown', message: 'The worker gave the job back.' }
    await worker('nack', { job_id: id, error, requeue: true })
    expect(await client.getJob(id)).toMatchObject({ state: 'available', attempt: 0 })
    expect(await fetched()).toMatchObject([{ id, attempt: 1 }])
  })

  test('a job that waits again has neither started_at nor worker_id, as on a server', async () => {
    const retry = { maxAttempts: 3, initialIntervalMs: 1_000 }
    const { id } = await client.enqueue('a', [], { retry })
    const error = { code: 'shutdown', message: 'The worker gave the job back.' }
    const started = async () => {
      const [job] = await fetched({ worker_id: 'w' })
      if (!job) throw new Error('no job')
      expect(job).toMatchObject({ started_at: expect.any(String), worker_id: 'w' })
      return { ...job }
    }
    const waits = async (state: string) => {
      const job = await client.getJob(id)
      expect(job.state).toBe(state)
      expect(Object.keys(job)).not.toEqual(expect.arrayContaining(['started_at']))
      expect(Object.keys(job)).not.toEqual(expect.arrayContaining(['worker_id']))
    }
    await started()
    await worker('nack', { job_id: id, error, requeue: true })
    await waits('available')
    await started()
    memory.advance(3_600_000)
    await waits('available')
    await failed(await started())
    await waits('retryable')
    memory.advance(1_000_000)
    await failed(await started())
    await client.deadLetters.retry(id)
    await waits('available')
  })

  test.each([
    ['the worker says so', {}, { retryable: false }],
    ['its code is listed', { nonRetryableErrors: ['auth.*'] }, { code: 'auth.expired' }],
    [
      'its class is listed',
      { nonRetryableErrors: ['auth.*'] },
      { details: { error_class: 'auth.expired' } },
    ],
  ])('a failed job is discarded without retry if %s', async (_what, retry, error) => {
    await client.enqueue('a', [], { retry: { maxAttempts: 5, onExhaustion: 'discard', ...retry } })
    const [job] = await fetched()
    if (!job) throw new Error('no job')
    expect(await failed(job, error)).toMatchObject({ state: 'discarded' })
    expect((await client.deadLetters.list()).jobs).toEqual([])
  })

  test('a job is available again when its lease ends, which a heartbeat postpones', async () => {
    const { id } = await client.enqueue('a')
    await fetched({ visibility_timeout_ms: 60_000 })
    memory.advance(50_000)
    const beat = { worker_id: 'w', active_jobs: [id, 'x'], visibility_timeout_ms: 60_000 }
    expect(await worker('heartbeat', beat)).toMatchObject({
      state: 'running',
      jobs_extended: [id],
    })
    memory.advance(50_000)
    expect(await client.getJob(id)).toMatchObject({ state: 'active' })
    memory.advance(50_000)
    expect(await client.getJob(id)).toMatchObject({ state: 'available', attempt: 1 })
    await client.cancelJob(id)
    expect(await worker('heartbeat', beat)).toMatchObject({ cancelled_jobs: [id] })
  })

  test('a heartbeat neither extends nor reports as cancelled the job of another worker', async () => {
    const { id } = await client.enqueue('a')
    await fetched({ worker_id: 'first' })
    memory.advance(30_000)
    await fetched({ worker_id: 'second' })
    const beat = (worker_id: string) => worker('heartbeat', { worker_id, active_jobs: [id] })
    expect(await beat('first')).toMatchObject({ jobs_extended: [], cancelled_jobs: [] })
    expect(await beat('second')).toMatchObject({ jobs_extended: [id] })
    await client.cancelJob(id)
    expect(await beat('first')).toMatchObject({ cancelled_jobs: [] })
    expect(await beat('second')).toMatchObject({ cancelled_jobs: [id] })
  })

  test('a job has no worker_id after a FETCH without one', async () => {
    const { id } = await client.enqueue('a')
    await fetched({ worker_id: 'first' })
    memory.advance(30_000)
    await fetched()
    expect(await client.getJob(id)).not.toHaveProperty('worker_id')
  })

  test('leases and expiries that ended by advance() show in every next request', async () => {
    const { id } = await client.enqueue('a', [], { retry: { maxAttempts: 1 } })
    await fetched()
    memory.advance(30_000)
    const error = { code: 'visibility_timeout', retryable: true }
    const lost = { id, state: 'discarded', error, errors: [{ ...error, attempt: 1 }] }
    expect((await client.deadLetters.list()).jobs).toMatchObject([lost])
    const expiresAt = new Date(Date.now() + 60_000)
    const other = await client.enqueue('b', [], { expiresAt })
    memory.advance(60_000)
    await expect(client.cancelJob(other.id)).rejects.toMatchObject({ currentState: 'discarded' })
    await client.enqueue('c', [], { retry: { maxAttempts: 1 } })
    const [last] = await fetched()
    memory.advance(30_000)
    expect(await client.deadLetters.retry(String(last?.id))).toMatchObject({ state: 'available' })
  })

  test('a job that waits past its expiry is discarded, and a dead letter only with on_exhaustion dead_letter', async () => {
    const options = { expiresAt: new Date(Date.now() + 60_000) }
    await client.enqueue('a', [], options)
    const { id } = await client.enqueue('b', [], {
      ...options,
      retry: { onExhaustion: 'dead_letter' },
    })
    memory.advance(61_000)
    expect(memory.jobs.map(({ state }) => state)).toEqual(['discarded', 'discarded'])
    const error = { code: 'expired', retryable: false }
    expect((await client.deadLetters.list()).jobs).toMatchObject([{ id, error }])
  })

  test('a pending job with a delay is scheduled when it is activated', async () => {
    const delayUntil = new Date(Date.now() + 60_000)
    const { id } = await client.enqueue('a', [], { pending: true, delayUntil })
    expect(await client.activateJob(id)).toMatchObject({ state: 'scheduled' })
    expect(await fetched()).toEqual([])
    memory.advance(60_000)
    expect(await fetched()).toMatchObject([{ id }])
  })

  test('a job that would expire before it starts is refused', async () => {
    const at = new Date(Date.now() + 60_000)
    const refused = client.enqueue('a', [], { delayUntil: at, expiresAt: at })
    const details = { field: 'expires_at', index: 0 }
    await expect(refused).rejects.toMatchObject({ name: 'OJSValidationError', details })
  })

  test.each(['tomorrow', '+PT5S'])(
    'a delay_until that cannot be parsed is refused: %s',
    async (delayUntil) => {
      const jobs = [{ type: 'a' }, { type: 'b', options: { delayUntil } }]
      await expect(client.enqueueBatch(jobs)).rejects.toMatchObject({
        name: 'OJSValidationError',
        details: { field: 'delay_until', index: 1 },
      })
    },
  )

  test('advance() makes a scheduled job available, discards an expired one and leaves a pending one', async () => {
    const delayUntil = new Date(Date.now() + 60_000)
    const scheduled = await client.enqueue('a', [], { delayUntil })
    expect(scheduled.state).toBe('scheduled')
    await client.enqueue('b', [], { expiresAt: new Date(Date.now() + 60_000) })
    const pending = await client.enqueue('c', [], { pending: true })
    memory.advance(61_000)
    expect(memory.jobs.map(({ state }) => state)).toEqual(['available', 'discarded', 'pending'])
    expect(await client.activateJob(pending.id)).toMatchObject({ state: 'available' })
  })

  test('a waiting FETCH returns the next job, and rejects when its signal fires', async () => {
    const waiting = fetched({ wait_ms: 60_000 })
    const { id } = await client.enqueue('a')
    expect((await waiting)[0]?.id).toBe(id)
    const controller = new AbortController()
    const { signal } = controller
    const body = { queues: ['default'], wait_ms: 60_000 }
    const sent = memory.request({ method: 'POST', path: '/workers/fetch', body, signal })
    controller.abort()
    await expect(sent).rejects.toMatchObject({ name: 'OJSTransportError', kind: 'aborted' })
  })
})

test('a client and a worker share an InMemoryTransport: the job completes without a server', async () => {
  const worker = new OJSWorker({ transport: memory, queues: ['email'], handleSignals: false })
  const handled = new Promise((resolve) => {
    worker.register('email.send', ({ args: [to] }) => {
      resolve(to)
      return { sent: true }
    })
  })
  await worker.start()
  const { id } = await client.enqueue('email.send', 'a@b.c', { queue: 'email' })
  expect(await handled).toBe('a@b.c')
  await worker.stop()
  expect(await client.getJob(id)).toMatchObject({ state: 'completed', result: { sent: true } })
})
