import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  HttpTransport,
  type Job,
  type JobContext,
  OJSClient,
  OJSWorker,
  type OJSWorkerOptions,
  type Transport,
} from '../../../src/sdk/index.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { deferred } from '../../support/time/deferred.ts'
import { freshQueue, serverForAll } from '../server.ts'

const server = serverForAll()
let client: OJSClient
let queue: string
beforeEach(() => {
  client = new OJSClient({ url: server.url })
  queue = freshQueue()
})

const workers: OJSWorker[] = []
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
})

async function startWorker(
  handler: (ctx: JobContext) => unknown,
  options: OJSWorkerOptions = {},
): Promise<OJSWorker> {
  const worker = new OJSWorker({
    url: server.url,
    queues: [queue],
    logger: false,
    handleSignals: false,
    gracePeriod: 0,
    pollInterval: 200,
    ...options,
  })
  workers.push(worker)
  worker.register('test.job', handler)
  await worker.start()
  return worker
}

const enqueue = (options: object = {}) =>
  client.enqueue('test.job', ['a', 1], { queue, ...options })

async function stateIs(id: string, state: string): Promise<Job> {
  await eventually(async () => (await client.getJob(id)).state === state)
  return client.getJob(id)
}

/** HttpTransport that rejects requests to the paths in `cut`, and records all paths. */
class CuttableTransport implements Transport {
  readonly sent: string[] = []
  readonly cut = new Set<string>()
  readonly #http = new HttpTransport({ url: server.url, retry: false })

  request(request: Parameters<Transport['request']>[0]) {
    this.sent.push(request.path)
    if (this.cut.has(request.path)) return Promise.reject(new Error('cut'))
    return this.#http.request(request)
  }
}

describe('OJSWorker on a gateway', () => {
  test('runs an enqueued job, whose result the client can read', async () => {
    let seen: JobContext | undefined
    const worker = await startWorker((ctx) => {
      seen = ctx
      return { delivered: true }
    })
    const { id } = await enqueue({ meta: { tenant: 'acme' }, priority: 3 })
    expect(await stateIs(id, 'completed')).toMatchObject({
      attempt: 1,
      result: { delivered: true },
    })
    expect(seen).toMatchObject({
      args: ['a', 1],
      attempt: 1,
      queue,
      type: 'test.job',
      meta: { tenant: 'acme' },
      workerId: worker.workerId,
    })
    expect(seen?.job).toMatchObject({ id, priority: 3, state: 'active' })
  })

  test('retries a failed job by its policy, and its history has the thrown errors', async () => {
    const attempts: number[] = []
    await startWorker(({ attempt }) => {
      attempts.push(attempt)
      if (attempt < 3) throw Object.assign(new RangeError(`try ${attempt}`), { code: 'E_RANGE' })
      return 'third time lucky'
    })
    const retry = {
      max_attempts: 5,
      initial_interval_ms: 100,
      backoff_coefficient: 1,
      jitter: false,
    }
    const { id } = await enqueue({ retry })
    const job = await stateIs(id, 'completed')
    expect(attempts).toEqual([1, 2, 3])
    expect(job.attempt).toBe(3)
    expect(job.errors).toMatchObject([
      { code: 'handler_error', type: 'RangeError', message: 'try 1' },
      { code: 'handler_error', type: 'RangeError', message: 'try 2' },
    ])
    expect(job.errors?.[0]?.['details']).toMatchObject({ code: 'E_RANGE' })
  })

  test('discards a job without retry if the error says retryable: false or no handler exists', async () => {
    await startWorker(() => {
      throw Object.assign(new Error('never'), { retryable: false })
    })
    const ids = [(await enqueue()).id, (await client.enqueue('unknown.type', [], { queue })).id]
    for (const id of ids) {
      expect(await stateIs(id, 'discarded')).toMatchObject({
        attempt: 1,
        error: { code: 'handler_error', retryable: false },
      })
    }
  })

  test('fails a job at its timeout_ms with code timeout, and aborts its signal', async () => {
    const reasons: unknown[] = []
    await startWorker(async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      reasons.push(signal.reason.name)
    })
    const { id } = await enqueue({ timeout_ms: 200, retry: { max_attempts: 1 } })
    expect(await stateIs(id, 'discarded')).toMatchObject({ error: { code: 'timeout' } })
    await expect.poll(() => reasons).toEqual(['TimeoutError'])
  })

  test('runs jobs side by side, never more than its concurrency', async () => {
    let running = 0
    let most = 0
    await startWorker(
      async () => {
        running += 1
        most = Math.max(most, running)
        await new Promise((resolve) => setTimeout(resolve, 5))
        running -= 1
      },
      { concurrency: 4 },
    )
    const specs = Array.from({ length: 60 }, () => ({
      type: 'test.job',
      args: [],
      options: { queue },
    }))
    const jobs = await client.enqueueBatch(specs)
    for (const { id } of jobs) await stateIs(id, 'completed')
    expect(most).toBeLessThanOrEqual(4)
    expect(most).toBeGreaterThan(1)
  })
})

describe('heartbeats to a gateway', () => {
  test('abort a cancelled job, which then sends neither ACK nor NACK', async () => {
    const transport = new CuttableTransport()
    const aborted = deferred<unknown>()
    const running = deferred()
    const worker = await startWorker(
      async ({ signal }) => {
        running.resolve()
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
        aborted.resolve(signal.reason)
        return 'too late'
      },
      { transport, heartbeatInterval: 200 },
    )
    const { id } = await enqueue()
    await running.promise
    await client.cancelJob(id)
    const before = transport.sent.length
    expect(await aborted.promise).toMatchObject({ reason: 'cancelled' })
    const beats = transport.sent.slice(before).filter((path) => path === '/workers/heartbeat')
    // The first heartbeat after the cancel brings it; another one may have been on its way before.
    expect(beats.length).toBeLessThanOrEqual(2)
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(await client.getJob(id)).toMatchObject({ state: 'cancelled' })
    expect(transport.sent).not.toContain('/workers/ack')
    expect(transport.sent).not.toContain('/workers/nack')
  })

  test('extend the lease of a job that runs for longer than its visibility timeout', async () => {
    await startWorker(() => new Promise((resolve) => setTimeout(resolve, 9_000)), {
      visibilityTimeout: 8_000,
      heartbeatInterval: 200,
    })
    const { id } = await enqueue()
    expect(await stateIs(id, 'completed')).toMatchObject({ attempt: 1 })
  })

  test('abort a job as lost when the gateway has given it to another worker', async () => {
    const transport = new CuttableTransport()
    const running = deferred()
    const handler = deferred()
    let reason: unknown
    const first = await startWorker(
      async ({ signal }) => {
        signal.addEventListener('abort', () => {
          reason = signal.reason
        })
        running.resolve()
        await handler.promise
        return 'of the first'
      },
      { transport, heartbeatInterval: 300, visibilityTimeout: 5_000 },
    )
    const { id } = await enqueue()
    await running.promise
    // Of two heartbeats sent while the job runs, the first has been answered, so its lease is extended.
    const named = transport.sent.length
    await eventually(
      () => transport.sent.slice(named).filter((path) => path.endsWith('/heartbeat')).length >= 2,
    )
    transport.cut.add('/workers/heartbeat')
    first.quiet()
    await startWorker(({ attempt }) => ({ attempt }))
    const { result } = await stateIs(id, 'completed')
    expect(result).toEqual({ attempt: 2 })
    transport.cut.clear()
    await eventually(() => reason !== undefined)
    expect(reason).toMatchObject({ reason: 'lost' })
    handler.resolve()
    await expect.poll(() => first.activeJobs).toBe(0)
    expect(transport.sent).toContain('/workers/ack')
    expect(await client.getJob(id)).toMatchObject({ state: 'completed', result: { attempt: 2 } })
  })

  test('bring the directives quiet, which stops fetching, and terminate, which ends the worker', async () => {
    const direct = (worker: OJSWorker, directive: string) =>
      new HttpTransport({ url: server.url }).request({
        method: 'POST',
        path: `/admin/workers/${worker.workerId}/${directive}`,
        body: {},
      })
    const handler = deferred()
    const running = deferred()
    const worker = await startWorker(
      () => {
        running.resolve()
        return handler.promise
      },
      { heartbeatInterval: 200 },
    )
    const { id } = await enqueue()
    await running.promise
    await direct(worker, 'quiet')
    await eventually(() => worker.state === 'quiet')
    const second = await enqueue()
    handler.resolve()
    await stateIs(id, 'completed')
    await eventually(() => worker.activeJobs === 0)
    // A poll that was open at the directive may have fetched the job; the worker then gives it back.
    await stateIs(second.id, 'available')
    await direct(worker, 'terminate')
    expect(await worker.stopped).toEqual({ abandoned: [] })
    expect(await client.getJob(second.id)).toMatchObject({ state: 'available', attempt: 0 })
  })
})

describe('shutdown of a worker on a gateway', () => {
  test('gives a running job back without counting an attempt', async () => {
    const running = deferred()
    const worker = await startWorker(() => {
      running.resolve()
      return deferred().promise
    })
    const { id } = await enqueue()
    await running.promise
    expect(await worker.stop()).toEqual({ abandoned: [id] })
    expect(await client.getJob(id)).toMatchObject({ state: 'available', attempt: 0 })
    const attempts: number[] = []
    await startWorker(({ attempt }) => attempts.push(attempt))
    await stateIs(id, 'completed')
    expect(attempts).toEqual([1])
  })

  test('waits within the grace period for a running job, and reports its result', async () => {
    const running = deferred()
    const handler = deferred<string>()
    const worker = await startWorker(
      () => {
        running.resolve()
        return handler.promise
      },
      { gracePeriod: 25_000 },
    )
    const { id } = await enqueue()
    await running.promise
    const stopping = worker.stop()
    handler.resolve('done')
    expect(await stopping).toEqual({ abandoned: [] })
    expect(await client.getJob(id)).toMatchObject({ state: 'completed', result: 'done' })
  })
})
