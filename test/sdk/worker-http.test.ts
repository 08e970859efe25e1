import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { OJSError, OJSTransportError } from '../../src/sdk/errors.ts'
import type { JobContext } from '../../src/sdk/execution.ts'
import type { Job } from '../../src/sdk/job.ts'
import { OJSWorker } from '../../src/sdk/worker.ts'
import type { OJSWorkerOptions } from '../../src/sdk/worker-options.ts'
import { deferred } from '../support/deferred.ts'
import { newJob, newLogger } from './fake-source.ts'
import { ScriptedTransport } from './scripted-transport.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
const workers: OJSWorker[] = []
afterEach(async () => {
  const stopping = workers.splice(0).map((worker) => worker.stop())
  await vi.advanceTimersByTimeAsync(40_000)
  await Promise.all(stopping)
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})

/** A server with the given jobs. It answers an empty poll only after the `wait_ms` that it asks for. */
function newServer(jobs: Partial<Job>[] = []) {
  const transport = new ScriptedTransport()
  const queue = jobs.map((job) => newJob(job))
  transport.scripts['/workers/fetch'] = async ({ count, wait_ms }, { signal }) => {
    if (queue.length === 0) {
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, Number(wait_ms))
        signal?.addEventListener('abort', () => {
          clearTimeout(timer)
          resolve(undefined)
        })
      })
    }
    return { jobs: queue.splice(0, Number(count)) }
  }
  return { transport, queue }
}

async function startWorker(
  transport: ScriptedTransport,
  handler: (ctx: JobContext) => unknown,
  options: Partial<OJSWorkerOptions> = {},
) {
  const logger = newLogger()
  const worker = new OJSWorker({
    url: 'http://unused',
    transport,
    logger,
    workerId: 'worker_1',
    handleSignals: false,
    gracePeriod: 0,
    ...options,
  })
  workers.push(worker)
  worker.register('test.job', handler)
  await worker.start()
  return { worker, logger }
}

const elapse = (ms = 0) => vi.advanceTimersByTimeAsync(ms)

const networkError = () => new OJSTransportError('no connection', { kind: 'network' })
const conflict = (currentState: string) =>
  new OJSError({
    code: 'invalid_request',
    message: 'Cannot acknowledge job.',
    status: 409,
    details: { current_state: currentState },
  })

it('a worker sends its requests with the given auth and headers through the given fetch', async () => {
  const fetch = vi.fn(async () => Response.json({ jobs: [] }))
  const given = { url: 'http://h', auth: 't', headers: { 'x-tenant': 'a' }, fetch }
  const worker = new OJSWorker({ ...given, logger: false, handleSignals: false })
  workers.push(worker)
  worker.register('test.job', () => undefined)
  await worker.start()
  await elapse()
  const headers = expect.objectContaining({ authorization: 'Bearer t', 'x-tenant': 'a' })
  const asked = expect.objectContaining({ headers })
  expect(fetch).toHaveBeenCalledWith('http://h/ojs/v1/workers/fetch', asked)
})

describe('reports of an HTTP worker', () => {
  it('name the id of the fetched job even if the handler changes job.id', async () => {
    const { transport } = newServer([{ id: 'job-of-server' }])
    await startWorker(transport, ({ job }) => Object.assign(job, { id: 'mine' }))
    await elapse(6_000)
    expect(transport.acks).toMatchObject([{ job_id: 'job-of-server' }])
    expect(transport.heartbeats.at(-1)).toMatchObject({ active_job_ids: [] })
  })
})

describe('poll loop of an HTTP worker', () => {
  it('asks for as many jobs as there are free slots, in the order of the queues', async () => {
    const { transport, queue } = newServer([{}, {}])
    const handlers = [deferred(), deferred()]
    const started: unknown[] = []
    await startWorker(transport, ({ job }) => handlers[started.push(job.id) - 1]?.promise, {
      concurrency: 3,
      queues: ['critical', 'default'],
      visibilityTimeout: 60_000,
    })
    await elapse()
    expect(transport.fetches).toEqual([
      {
        queues: ['critical', 'default'],
        count: 3,
        worker_id: 'worker_1',
        wait_ms: 1_000,
        visibility_timeout_ms: 60_000,
      },
      expect.objectContaining({ count: 1 }),
    ])
    handlers[0]?.resolve()
    await elapse(1_000)
    expect(transport.fetches.at(-1)).toMatchObject({ count: 2 })
    queue.push(newJob())
  })

  it('does not poll without a free slot, and polls at once when one becomes free', async () => {
    const { transport, queue } = newServer([{}, {}])
    const handlers = [deferred(), deferred(), deferred()]
    let started = 0
    await startWorker(
      transport,
      () => {
        started += 1
        return handlers[started - 1]?.promise
      },
      { concurrency: 2 },
    )
    await elapse(10_000)
    expect(transport.fetches).toHaveLength(1)
    queue.push(newJob())
    handlers[0]?.resolve()
    await elapse()
    expect(transport.fetches.slice(1)).toEqual([expect.objectContaining({ count: 1 })])
    expect(started).toBe(3)
  })

  it('asks for at most 100 jobs', async () => {
    const { transport } = newServer()
    await startWorker(transport, () => 1, { concurrency: 500 })
    expect(transport.fetches[0]).toMatchObject({ count: 100 })
  })

  it('gives back jobs that a server sends beyond the free slots', async () => {
    const { transport } = newServer()
    const jobs = [newJob(), newJob(), newJob()]
    transport.scripts['/workers/fetch'] = () => ({ jobs: jobs.splice(0) })
    const { worker } = await startWorker(transport, () => deferred().promise, { concurrency: 2 })
    await elapse()
    expect(worker.activeJobs).toBe(2)
    expect(transport.nacks).toEqual([
      expect.objectContaining({ requeue: true, worker_id: 'worker_1', attempt: 1 }),
    ])
  })

  it('waits pollInterval between polls if the server answers empty polls at once', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => ({ jobs: [] })
    await startWorker(transport, () => 1, { pollInterval: 500 })
    await elapse(499)
    expect(transport.fetches).toHaveLength(1)
    await elapse(2)
    expect(transport.fetches).toHaveLength(2)
    await elapse(5_000)
    expect(transport.fetches.length).toBeLessThanOrEqual(12)
  })

  it('backs off up to 10 s on errors, and resumes when the server is back', async () => {
    const { transport, queue } = newServer()
    const answer = transport.scripts['/workers/fetch']
    const at: number[] = []
    const begin = performance.now()
    transport.scripts['/workers/fetch'] = () => {
      at.push(performance.now() - begin)
      throw networkError()
    }
    const handled = vi.fn()
    const { logger } = await startWorker(transport, handled)
    await elapse(60_000)
    const gaps = at.map((time, i) => time - (at[i - 1] ?? 0)).slice(1)
    expect(gaps[0]).toBeGreaterThanOrEqual(1_000)
    expect(gaps[0]).toBeLessThanOrEqual(2_001)
    expect(Math.max(...gaps)).toBeGreaterThanOrEqual(5_000)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(10_001)
    expect(logger.error).toHaveBeenCalledTimes(at.length)
    if (answer) transport.scripts['/workers/fetch'] = answer
    queue.push(newJob())
    await elapse(10_001)
    expect(handled).toHaveBeenCalledOnce()
  })

  it('waits as long as Retry-After says before the next poll', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => {
      throw new OJSError({ code: 'rate_limited', message: 'slow', status: 429, retryAfter: 20 })
    }
    await startWorker(transport, () => 1)
    await elapse(19_999)
    expect(transport.fetches).toHaveLength(1)
    await elapse(2)
    expect(transport.fetches).toHaveLength(2)
  })

  it('waits at most a minute although Retry-After says more', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => {
      const init = { kind: 'protocol', status: 503, retryAfter: 999_999_999 } as const
      throw new OJSTransportError('a proxy', init)
    }
    await startWorker(transport, () => 1)
    await elapse(59_999)
    expect(transport.fetches).toHaveLength(1)
    await elapse(2)
    expect(transport.fetches).toHaveLength(2)
  })

  it('logs and skips items of the answer that are no jobs, and runs the others', async () => {
    const { transport } = newServer()
    let polls = 0
    transport.scripts['/workers/fetch'] = () => {
      polls += 1
      return { jobs: polls === 1 ? [null, { id: 1 }, { id: 'x', type: 'test.job' }] : [] }
    }
    const handled = vi.fn()
    const { logger } = await startWorker(transport, (ctx) => handled(ctx.args, ctx.attempt))
    await elapse()
    expect(handled.mock.calls).toEqual([[[], 1]])
    expect(logger.error).toHaveBeenCalledTimes(2)
  })

  it('asks for a wait_ms of at most 30 s', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => ({ jobs: [] })
    await startWorker(transport, () => 1, { pollInterval: 60_000 })
    expect(transport.fetches[0]).toMatchObject({ wait_ms: 30_000 })
  })

  it('waits pollInterval after an answer whose items are all no jobs', async () => {
    const { transport } = newServer()
    // Ends after nine polls: without the pause that is tested, the loop would never end.
    transport.scripts['/workers/fetch'] = () => ({ jobs: transport.fetches.length < 9 ? [{}] : [] })
    await startWorker(transport, () => 1, { pollInterval: 500 })
    await elapse(499)
    expect(transport.fetches).toHaveLength(1)
    await elapse(2)
    expect(transport.fetches).toHaveLength(2)
  })

  it('logs an answer that is not OJS as an error and keeps running', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => ({ hello: 'world' })
    const { logger, worker } = await startWorker(transport, () => 1)
    await elapse(500)
    expect(logger.error).toHaveBeenCalledOnce()
    expect(worker.state).toBe('running')
  })
})

describe('ACK and NACK of an HTTP worker', () => {
  it('name the job, the worker and the attempt', async () => {
    const { transport } = newServer([
      { id: 'good', attempt: 3 },
      { id: 'bad', attempt: 2 },
    ])
    await startWorker(transport, ({ job }) => {
      if (job.id === 'bad') throw new Error('boom')
      return { delivered: true }
    })
    await elapse()
    expect(transport.acks).toEqual([
      { job_id: 'good', worker_id: 'worker_1', attempt: 3, result: { delivered: true } },
    ])
    expect(transport.nacks).toEqual([
      {
        job_id: 'bad',
        worker_id: 'worker_1',
        attempt: 2,
        error: {
          code: 'handler_error',
          type: 'Error',
          message: 'boom',
          retryable: true,
          details: { stack: expect.any(String) },
        },
      },
    ])
  })

  it('are sent only after the handler has ended', async () => {
    const { transport } = newServer([{}])
    const handler = deferred()
    await startWorker(transport, () => handler.promise)
    await elapse(5_000)
    expect(transport.acks).toEqual([])
    handler.resolve()
    await elapse()
    expect(transport.acks).toHaveLength(1)
    expect(transport.acks[0]).not.toHaveProperty('result')
  })

  it('are not repeated on a 409, which neither stops the worker nor fails the job', async () => {
    const { transport } = newServer([{}, {}])
    transport.scripts['/workers/ack'] = () => {
      throw conflict('available')
    }
    const { worker, logger } = await startWorker(transport, () => 1)
    await elapse(60_000)
    expect(transport.acks).toHaveLength(2)
    expect(transport.nacks).toEqual([])
    expect(worker).toMatchObject({ state: 'running', activeJobs: 0 })
    expect(logger.warn).toHaveBeenCalledTimes(2)
    expect(logger.error).not.toHaveBeenCalled()
  })

  it.each([
    ['does not know the job any more', 404, 'not_found', []],
    ['cannot take the result', 422, 'unsupported', [{ error: { type: 'ResultError' } }]],
  ])('are not repeated if the server %s', async (_what, status, code, nacks) => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw new OJSError({ code, message: 'No.', status })
    }
    await startWorker(transport, () => 1)
    await elapse(20_000)
    expect(transport.acks).toHaveLength(1)
    expect(transport.nacks).toMatchObject(nacks)
  })

  it('are repeated unchanged while the server cannot be reached', async () => {
    const { transport } = newServer([{}])
    let tries = 0
    transport.scripts['/workers/ack'] = () => {
      tries += 1
      if (tries < 5) throw tries % 2 ? networkError() : new Error('custom transport')
      return {}
    }
    const { worker, logger } = await startWorker(transport, () => 'result')
    await elapse(15_000)
    expect(tries).toBe(5)
    expect(new Set(transport.acks.map((ack) => JSON.stringify(ack))).size).toBe(1)
    expect(worker.activeJobs).toBe(0)
    expect(logger.error).not.toHaveBeenCalled()
  })

  it('are repeated after a 422 with the retryable code queue_paused', async () => {
    const { transport } = newServer([{}])
    let tries = 0
    transport.scripts['/workers/ack'] = () => {
      tries += 1
      if (tries === 1) throw new OJSError({ code: 'queue_paused', message: 'not now', status: 422 })
      return {}
    }
    await startWorker(transport, () => 'result')
    await elapse(1_000)
    expect(tries).toBe(2)
    expect(transport.nacks).toEqual([])
  })

  it('are not repeated after the lease has ended', async () => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw networkError()
    }
    transport.scripts['/workers/heartbeat'] = () => {
      throw networkError()
    }
    const { worker, logger } = await startWorker(transport, () => 1, { visibilityTimeout: 12_000 })
    await elapse(6_000)
    expect(worker.activeJobs).toBe(1)
    await elapse(6_000)
    expect(worker.activeJobs).toBe(0)
    const message = expect.stringContaining('could not be delivered')
    expect(logger.error).toHaveBeenCalledWith(
      message,
      expect.objectContaining({ report: 'complete' }),
    )
    const tries = transport.acks.length
    await elapse(60_000)
    expect(transport.acks).toHaveLength(tries)
    expect(transport.nacks).toEqual([])
  })

  it('are repeated beyond the visibility timeout if heartbeats extend the lease', async () => {
    const { transport } = newServer([{ id: 'one' }])
    transport.scripts['/workers/ack'] = () => {
      throw networkError()
    }
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids }) => ({
      state: 'running',
      jobs_extended: active_job_ids,
    })
    const { worker } = await startWorker(transport, () => 1, { visibilityTimeout: 12_000 })
    await elapse(60_000)
    expect(worker.activeJobs).toBe(1)
    transport.scripts['/workers/ack'] = () => ({})
    await elapse(5_000)
    expect(worker.activeJobs).toBe(0)
  })

  it('wait for a Retry-After longer than the visibility timeout if heartbeats extend the lease', async () => {
    const { transport } = newServer([{ id: 'one' }])
    transport.scripts['/workers/ack'] = () => {
      throw new OJSError({ code: 'rate_limited', message: 'slow', status: 429, retryAfter: 20 })
    }
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids }) => ({
      state: 'running',
      jobs_extended: active_job_ids,
    })
    const { worker } = await startWorker(transport, () => 1, { visibilityTimeout: 12_000 })
    await elapse(10_000)
    transport.scripts['/workers/ack'] = () => ({})
    await elapse(15_000)
    expect([transport.acks.length, worker.activeJobs]).toEqual([2, 0])
  })

  it('wait as long as Retry-After says before they are repeated', async () => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw new OJSError({ code: 'backend_error', message: 'busy', status: 503, retryAfter: 3 })
    }
    await startWorker(transport, () => 1)
    await elapse(2_999)
    expect(transport.acks).toHaveLength(1)
    await elapse(2)
    expect(transport.acks).toHaveLength(2)
  })

  it('accept a 409 as success if an earlier try, whose answer was lost, explains the state', async () => {
    const states = ['completed', 'retryable', 'discarded', 'available']
    const { transport } = newServer(states.map((id) => ({ id })))
    const tried = new Set<unknown>()
    const failingFirst = (body: Record<string, unknown>): never => {
      const { job_id: id } = body
      if (tried.has(id)) throw conflict(String(id))
      tried.add(id)
      throw networkError()
    }
    transport.scripts['/workers/ack'] = failingFirst
    transport.scripts['/workers/nack'] = failingFirst
    const fails = ({ job }: JobContext) => {
      if (job.id !== 'completed') throw new Error('boom')
    }
    const { logger } = await startWorker(transport, fails, { concurrency: 4 })
    await elapse(1_000)
    expect([transport.acks.length, transport.nacks.length]).toEqual([2, 6])
    expect(logger.warn).not.toHaveBeenCalled()
    expect(logger.error).not.toHaveBeenCalled()
  })

  it('log an error if the server refuses a NACK with 400', async () => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/nack'] = () => {
      throw new OJSError({ code: 'invalid_request', message: 'no', status: 400 })
    }
    const { logger } = await startWorker(transport, () => Promise.reject(new Error('boom')))
    await elapse(1_000)
    expect(transport.nacks).toHaveLength(1)
    expect(logger.error.mock.calls.map(([message]) => message)).toEqual([
      'http source reported an error',
      'report could not be delivered; the job will run again',
    ])
  })

  it.each([
    ['on the first try', 'completed', 1],
    ['on a repeated try that finds another state', 'available', 2],
  ])('do not accept a 409 as success %s', async (_which, state, tries) => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw transport.acks.length < tries ? networkError() : conflict(state)
    }
    const { logger } = await startWorker(transport, () => 1)
    await elapse(1_000)
    expect(transport.acks).toHaveLength(tries)
    expect(logger.warn).toHaveBeenCalledTimes(1)
  })

  it.each([
    ['the server', new OJSError({ code: 'invalid_request', message: 'too large', status: 413 })],
    ['a proxy', new OJSTransportError('too large', { kind: 'protocol', status: 413 })],
  ])('fail the job for good if %s refuses its result with 413', async (_who, refusal) => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw refusal
    }
    const { worker } = await startWorker(transport, () => 'x')
    await elapse()
    expect(transport.acks).toHaveLength(1)
    expect(transport.nacks).toMatchObject([
      { attempt: 1, error: { code: 'handler_error', type: 'ResultError', retryable: false } },
    ])
    expect(transport.nacks).toMatchObject([
      { error: { message: 'The server refused the result of the job: too large' } },
    ])
    expect(worker.activeJobs).toBe(0)
  })

  it('understand a transport that returns errors as answers instead of throwing them', async () => {
    const { transport } = newServer([{}])
    const request = transport.request.bind(transport)
    const body = { error: { code: 'invalid_request', message: 'no', retryable: false } }
    transport.request = async (opts) => {
      const answer = await request(opts)
      return opts.path === '/workers/ack' ? { status: 409, body } : answer
    }
    const { logger } = await startWorker(transport, () => 1)
    await elapse()
    expect(logger.warn).toHaveBeenCalledWith(
      'report came too late: the server no longer waits for this execution',
      expect.anything(),
    )
  })

  it('log no warning if the server has already failed the job for its timeout', async () => {
    const { transport } = newServer([{ timeout_ms: 500 }])
    transport.scripts['/workers/nack'] = () => {
      throw conflict('retryable')
    }
    const handler = deferred()
    const { worker, logger } = await startWorker(transport, () => handler.promise)
    await elapse(600)
    expect(transport.nacks).toMatchObject([{ attempt: 1, error: { code: 'timeout' } }])
    handler.resolve()
    await elapse()
    expect(worker.activeJobs).toBe(0)
    expect(logger.warn).not.toHaveBeenCalled()
  })
})

describe('heartbeats of an HTTP worker', () => {
  it('are sent every 5 s and name the running jobs', async () => {
    const { transport } = newServer([{ id: 'a' }, { id: 'b' }])
    const handler = deferred()
    await startWorker(transport, () => handler.promise, { concurrency: 2, queues: ['q'] })
    expect(transport.heartbeats).toHaveLength(1)
    await elapse(4_999)
    expect(transport.heartbeats).toHaveLength(1)
    await elapse(2)
    expect(transport.heartbeats).toEqual([
      expect.objectContaining({ active_jobs: 0, active_job_ids: [] }),
      {
        worker_id: 'worker_1',
        state: 'running',
        active_jobs: 2,
        active_job_ids: ['a', 'b'],
        queues: ['q'],
        concurrency: 2,
        pid: process.pid,
      },
    ])
    handler.resolve()
    await elapse(5_000)
    expect(transport.heartbeats.at(-1)).toMatchObject({ active_jobs: 0, active_job_ids: [] })
  })

  it('are sent three times per shortest lease', async () => {
    const { transport } = newServer([{ visibility_timeout_ms: 900 }])
    await startWorker(transport, () => deferred().promise)
    await elapse(3_050)
    const named = transport.heartbeats.filter(({ active_jobs }) => active_jobs === 1)
    expect(named.length).toBeGreaterThanOrEqual(9)
    expect(named.length).toBeLessThanOrEqual(11)
  })

  it('are sent within a third of the lease of a new job, whenever the last one was', async () => {
    const { transport } = newServer()
    let jobs: object[] = []
    transport.scripts['/workers/fetch'] = () => ({ jobs: jobs.splice(0) })
    await startWorker(transport, () => deferred().promise, { pollInterval: 1_000 })
    await elapse(500)
    jobs = [newJob({ visibility_timeout_ms: 6_000 })]
    await elapse(600)
    await elapse(2_000)
    const named = transport.heartbeats.filter(({ active_jobs }) => active_jobs === 1)
    expect(named).toHaveLength(1)
  })

  describe('with a job that has no visibility timeout', () => {
    const hinting = (hint: unknown) => () => ({ state: 'running', heartbeat_interval_ms: hint })
    const namedIn = async (ms: number, transport: ScriptedTransport) => {
      await elapse(ms)
      return transport.heartbeats.filter(({ active_jobs }) => active_jobs === 1).length
    }

    it('are sent at the heartbeat_interval_ms of the server from the first job on', async () => {
      const { transport } = newServer([{}])
      transport.scripts['/workers/heartbeat'] = hinting(1_333)
      await startWorker(transport, () => deferred().promise)
      expect(await namedIn(4_000, transport)).toBe(3)
    })

    it('are sent soon after the fetch if that interval has already passed', async () => {
      const { transport } = newServer()
      transport.scripts['/workers/heartbeat'] = hinting(1_333)
      let jobs: object[] = []
      transport.scripts['/workers/fetch'] = () => ({ jobs: jobs.splice(0) })
      await startWorker(transport, () => deferred().promise)
      await elapse(2_500)
      expect(transport.heartbeats).toHaveLength(1)
      jobs = [newJob()]
      expect(await namedIn(501, transport)).toBe(1)
    })

    it('are sent early while the server has answered no heartbeat', async () => {
      const { transport } = newServer([{}])
      transport.scripts['/workers/heartbeat'] = () => {
        throw networkError()
      }
      await startWorker(transport, () => deferred().promise)
      await elapse(500)
      transport.scripts['/workers/heartbeat'] = hinting(1_000)
      expect(await namedIn(3_000, transport)).toBe(3)
    })

    it.each([null, '1000', 0, -1, Number.NaN, Number.POSITIVE_INFINITY, 86_400_000, undefined])(
      'are sent every 10 s if the server says the interval %j',
      async (hint) => {
        const { transport } = newServer([{}])
        transport.scripts['/workers/heartbeat'] = hinting(hint)
        await startWorker(transport, () => deferred().promise, { heartbeatInterval: 60_000 })
        expect(await namedIn(30_500, transport)).toBe(3)
      },
    )

    it('are sent at most twenty times a second although the server says a shorter interval', async () => {
      const { transport } = newServer([{}])
      transport.scripts['/workers/heartbeat'] = hinting(0.001)
      await startWorker(transport, () => deferred().promise)
      expect(await namedIn(1_001, transport)).toBe(20)
    })

    it("ignore the server's interval if the job has a visibility timeout", async () => {
      const { transport } = newServer([{ visibility_timeout_ms: 60_000 }])
      transport.scripts['/workers/heartbeat'] = hinting(100)
      await startWorker(transport, () => deferred().promise)
      expect(await namedIn(10_001, transport)).toBe(2)
    })
  })

  it('have a timeout that ends when the next one is due', async () => {
    const { transport } = newServer([{ visibility_timeout_ms: 6_000 }])
    const limits: unknown[] = []
    transport.scripts['/workers/heartbeat'] = (_body, { timeout }) => {
      limits.push(timeout)
      return { state: 'running' }
    }
    await startWorker(transport, () => deferred().promise, { heartbeatInterval: 60_000 })
    await elapse(2_100)
    expect(limits.at(-1)).toBe(2_000)
  })

  it('name at most 1000 job ids each, and are split for more', async () => {
    const { transport } = newServer(Array.from({ length: 1_500 }, () => ({})))
    await startWorker(transport, () => deferred().promise, { concurrency: 1_500 })
    await elapse(5_000)
    const last = transport.heartbeats.slice(-2)
    const named = last.map((beat) => beat['active_job_ids'] as string[])
    expect(named.map(({ length }) => length)).toEqual([1_000, 500])
    expect(last[0]).toMatchObject({ active_jobs: 1_500 })
  })

  it('are continued while the server cannot be reached, with one error logged', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/heartbeat'] = () => {
      throw networkError()
    }
    const { logger } = await startWorker(transport, () => 1)
    await elapse(20_001)
    expect(transport.heartbeats).toHaveLength(5)
    expect(logger.error).toHaveBeenCalledOnce()
  })

  it('are sent while a poll hangs', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => deferred().promise
    await startWorker(transport, () => 1)
    await elapse(15_001)
    expect(transport.heartbeats).toHaveLength(4)
  })

  it('abort a running job that cancelled_jobs names', async () => {
    const { transport } = newServer([{ id: 'a' }, { id: 'b' }])
    const signals: Record<string, AbortSignal> = {}
    const handlers = { a: deferred(), b: deferred() }
    await startWorker(transport, ({ job, signal }) => {
      signals[job.id] = signal
      return job.id === 'a' ? handlers.a.promise : handlers.b.promise
    })
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids }) => ({
      state: 'running',
      jobs_extended: (active_job_ids as string[]).filter((id) => id !== 'a'),
      cancelled_jobs: ['a', 'unknown'],
    })
    await elapse(5_001)
    expect(signals['a']?.reason).toMatchObject({ reason: 'cancelled' })
    expect(signals['b']?.aborted).toBe(false)
    handlers.a.resolve()
    handlers.b.resolve()
    await elapse(5_000)
    expect(transport.acks).toEqual([expect.objectContaining({ job_id: 'b' })])
    expect(transport.nacks).toEqual([])
  })

  it('abort a running job as lost when jobs_extended no longer names it', async () => {
    const { transport } = newServer([{ id: 'a' }])
    let signal: AbortSignal | undefined
    await startWorker(transport, (ctx) => {
      signal = ctx.signal
      return deferred().promise
    })
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids }) => ({
      state: 'running',
      jobs_extended: active_job_ids,
    })
    await elapse(5_001)
    expect(signal?.aborted).toBe(false)
    transport.scripts['/workers/heartbeat'] = () => ({ state: 'running', jobs_extended: [] })
    await elapse(5_001)
    expect(signal?.reason).toMatchObject({ reason: 'lost' })
    await elapse(5_001)
    expect(transport.heartbeats.at(-1)).toMatchObject({ active_job_ids: [] })
  })

  it('still name a job that was fetched again when its older execution ends', async () => {
    const { transport, queue } = newServer([{ id: 'a' }])
    const handlers = [deferred(), deferred()]
    await startWorker(transport, ({ attempt }) => handlers[attempt - 1]?.promise)
    await elapse()
    queue.push(newJob({ id: 'a', attempt: 2 }))
    await elapse(1_001)
    handlers[0]?.resolve()
    await elapse(10_000)
    expect(transport.heartbeats.at(-1)).toMatchObject({ active_job_ids: ['a'] })
    handlers[1]?.resolve()
    await elapse()
  })

  it('do not abort a job that was fetched again after they were sent', async () => {
    const { transport, queue } = newServer([{ id: 'a' }])
    const handlers = [deferred(), deferred()]
    const signals: AbortSignal[] = []
    await startWorker(transport, ({ attempt, signal }) => {
      signals.push(signal)
      return handlers[attempt - 1]?.promise
    })
    const answer = deferred()
    transport.scripts['/workers/heartbeat'] = async () => {
      await answer.promise
      return { state: 'running', jobs_extended: [], cancelled_jobs: ['a'] }
    }
    await elapse(5_001)
    queue.push(newJob({ id: 'a', attempt: 2 }))
    handlers[0]?.resolve()
    await elapse(2_000)
    expect(signals).toHaveLength(2)
    answer.resolve()
    await elapse()
    expect(signals[1]?.aborted).toBe(false)
    handlers[1]?.resolve()
    await elapse()
    expect(transport.acks).toMatchObject([{ attempt: 1 }, { attempt: 2 }])
  })

  it('abort no job if the server never names extended jobs', async () => {
    const { transport } = newServer([{ id: 'a' }])
    let signal: AbortSignal | undefined
    await startWorker(transport, (ctx) => {
      signal = ctx.signal
      return deferred().promise
    })
    await elapse(60_000)
    expect(signal?.aborted).toBe(false)
    // The answered heartbeats before have extended the lease, so it is not over.
    transport.scripts['/workers/heartbeat'] = () => {
      throw networkError()
    }
    await elapse(10_000)
    expect(signal?.aborted).toBe(false)
  })

  it('that fail abort the jobs whose lease is over as lost', async () => {
    const { transport } = newServer([
      { id: 'short' },
      { id: 'long', visibility_timeout_ms: 90_000 },
    ])
    const signals: Record<string, AbortSignal> = {}
    const handlers = { short: deferred(), long: deferred() }
    await startWorker(transport, ({ job, signal }) => {
      signals[job.id] = signal
      return handlers[job.id as 'short' | 'long'].promise
    })
    transport.scripts['/workers/heartbeat'] = () => {
      throw networkError()
    }
    await elapse(29_900)
    expect(signals['short']?.aborted).toBe(false)
    await elapse(5_100)
    expect(signals['short']?.reason).toMatchObject({ reason: 'lost' })
    expect(signals['long']?.aborted).toBe(false)
    expect(transport.heartbeats.at(-1)).toMatchObject({ active_job_ids: ['long'] })
    handlers.short.resolve()
    handlers.long.resolve()
    await elapse()
    expect(transport.acks.map(({ job_id }) => job_id)).toEqual(['short', 'long'])
  })
})

describe('directives to an HTTP worker', () => {
  const saying = (state: string) => () => ({ state, jobs_extended: [] })

  it('quiet: the worker stops fetching, finishes its job and keeps sending heartbeats', async () => {
    const { transport, queue } = newServer([{ id: 'a' }])
    const handler = deferred()
    const { worker } = await startWorker(transport, () => handler.promise)
    await elapse(1_000)
    transport.scripts['/workers/heartbeat'] = saying('quiet')
    await elapse(4_001)
    expect(worker.state).toBe('quiet')
    const polls = transport.fetches.length
    queue.push(newJob())
    handler.resolve()
    await elapse(20_000)
    expect(transport.fetches.length).toBeLessThanOrEqual(polls + 1)
    expect(transport.acks).toHaveLength(1)
    expect(transport.heartbeats.at(-1)).toMatchObject({ state: 'quiet' })
    expect(transport.heartbeats.length).toBeGreaterThanOrEqual(5)
  })

  it('quiet: jobs of a poll that is answered afterwards are given back', async () => {
    const { transport } = newServer()
    const poll = deferred<object>()
    transport.scripts['/workers/fetch'] = () => poll.promise
    const handled = vi.fn()
    const { worker } = await startWorker(transport, handled)
    worker.quiet()
    poll.resolve({ jobs: [newJob({ id: 'late', attempt: 2 })] })
    await elapse()
    expect(handled).not.toHaveBeenCalled()
    expect(transport.nacks).toEqual([
      expect.objectContaining({ job_id: 'late', attempt: 2, requeue: true }),
    ])
    expect(transport.fetches).toHaveLength(1)
  })

  it('terminate: a running job is not aborted although jobs_extended is empty', async () => {
    const { transport } = newServer([{ id: 'a' }])
    const handler = deferred()
    let signal: AbortSignal | undefined
    await startWorker(
      transport,
      (ctx) => {
        signal = ctx.signal
        return handler.promise
      },
      { gracePeriod: 20_000 },
    )
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids }) => ({
      state: 'running',
      jobs_extended: active_job_ids,
    })
    await elapse(5_001)
    transport.scripts['/workers/heartbeat'] = () => ({ state: 'terminate', jobs_extended: [] })
    await elapse(10_001)
    expect(signal?.aborted).toBe(false)
    handler.resolve()
    await elapse()
    expect(transport.acks).toHaveLength(1)
  })

  it('terminate: the worker ends after its grace period and gives the running job back', async () => {
    const { transport } = newServer([{ id: 'a' }])
    const { worker } = await startWorker(transport, () => deferred().promise, {
      gracePeriod: 2_000,
    })
    await elapse(1_000)
    transport.scripts['/workers/heartbeat'] = saying('terminate')
    await elapse(4_001)
    expect(worker.state).toBe('terminate')
    expect(transport.heartbeats.at(-1)).toMatchObject({ state: 'terminate', active_jobs: 1 })
    await elapse(3_000)
    expect(await worker.stopped).toEqual({ abandoned: ['a'] })
    expect(transport.nacks).toEqual([
      expect.objectContaining({ job_id: 'a', requeue: true, worker_id: 'worker_1', attempt: 1 }),
    ])
  })
})

describe('shutdown of an HTTP worker', () => {
  it('is sent to the server in a last heartbeat, also by an idle quiet worker', async () => {
    const { transport } = newServer()
    const { worker } = await startWorker(transport, () => 1)
    worker.quiet()
    await elapse(3_000)
    // A heartbeat is under way for 10 ms, in which the worker could still abort it.
    const heard: unknown[] = []
    transport.scripts['/workers/heartbeat'] = async ({ state }, { signal }) => {
      await new Promise((resolve) => setTimeout(resolve, 10))
      if (!signal?.aborted) heard.push(state)
    }
    const stopping = worker.stop()
    await elapse(50)
    await stopping
    expect(heard).toEqual(['terminate'])
  })

  it('waits at most a second for the answer to its last heartbeat', async () => {
    const { transport } = newServer()
    const { worker } = await startWorker(transport, () => 1)
    worker.quiet()
    await elapse(3_000)
    transport.scripts['/workers/heartbeat'] = () => deferred().promise
    const ended = vi.fn()
    void worker.stop().then(ended)
    await elapse(900)
    expect(ended).not.toHaveBeenCalled()
    await elapse(101)
    expect(ended).toHaveBeenCalled()
  })

  it('lets an open poll end, and gives back the job that it brings', async () => {
    const { transport, queue } = newServer()
    const { worker } = await startWorker(transport, () => 1)
    await elapse(500)
    const stopping = worker.stop()
    queue.push(newJob({ id: 'late' }))
    await elapse(501)
    await stopping
    expect(transport.nacks).toEqual([expect.objectContaining({ job_id: 'late', requeue: true })])
  })

  it('waits at most two seconds for a poll that ignores its signal', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => deferred().promise
    const { worker } = await startWorker(transport, () => 1)
    const stopping = worker.stop()
    await elapse(2_001)
    expect(await stopping).toEqual({ abandoned: [] })
  })

  it('waits for reports that are under way', async () => {
    const { transport } = newServer([{}])
    const ack = deferred<object>()
    transport.scripts['/workers/ack'] = () => ack.promise
    const { worker } = await startWorker(transport, () => 1)
    await elapse(500)
    const stopping = worker.stop()
    await elapse(3_000)
    ack.resolve({})
    await elapse()
    expect(await stopping).toEqual({ abandoned: [] })
  })

  it('names as abandoned a job whose report cannot be sent', async () => {
    const { transport } = newServer([{ id: 'a' }])
    transport.scripts['/workers/ack'] = () => {
      throw networkError()
    }
    const { worker } = await startWorker(transport, () => 1)
    await elapse(500)
    const stopping = worker.stop()
    await elapse(5_500)
    expect(await stopping).toEqual({ abandoned: ['a'] })
  })

  it('ends within 100 ms while the server cannot be reached', async () => {
    const { transport } = newServer()
    for (const path of Object.keys(transport.scripts)) {
      transport.scripts[path] = () => {
        throw networkError()
      }
    }
    const { worker } = await startWorker(transport, () => 1)
    await elapse(10_000)
    const stopping = worker.stop()
    await elapse(100)
    expect(await stopping).toEqual({ abandoned: [] })
  })
})
