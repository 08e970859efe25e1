import { describe, expect, it, vi } from 'vitest'
import { OJSError, OJSTransportError } from '../../../src/sdk/transport/errors.ts'
import { deferred } from '../../support/time/deferred.ts'
import { newJob } from '../fake-source.ts'
import { elapse, networkError, newServer, useHttpWorkers } from '../http-worker.ts'

const { start, startWorker } = useHttpWorkers()

it('a worker sends its requests with the given auth and headers through the given fetch', async () => {
  const fetch = vi.fn(async () => Response.json({ jobs: [] }))
  const given = { url: 'http://h', auth: 't', headers: { 'x-tenant': 'a' }, fetch }
  await start(() => undefined, { ...given, logger: false })
  await elapse()
  const headers = expect.objectContaining({ authorization: 'Bearer t', 'x-tenant': 'a' })
  const asked = expect.objectContaining({ headers })
  expect(fetch).toHaveBeenCalledWith('http://h/ojs/v1/workers/fetch', asked)
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
