import { describe, expect, it, vi } from 'vitest'
import { deferred } from '../../support/time/deferred.ts'
import { newJob } from '../fake-source.ts'
import { elapse, networkError, newServer, useHttpWorkers } from '../http-worker.ts'
import type { ScriptedTransport } from '../scripted-transport.ts'

const { startWorker } = useHttpWorkers()

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
    await elapse(14_900)
    expect(transport.heartbeats).toHaveLength(2)
    await elapse(200)
    expect(transport.heartbeats.at(-1)).toMatchObject({ active_jobs: 0, active_job_ids: [] })
  })

  it('and polls cost a worker without jobs at most eight requests a minute', async () => {
    const { transport } = newServer()
    await startWorker(transport, () => 1, { pollInterval: undefined })
    await elapse(60_000)
    expect(transport.fetches.at(-1)).toMatchObject({ wait_ms: 20_000 })
    expect(transport.fetches.length + transport.heartbeats.length).toBeLessThanOrEqual(9)
    expect(transport.heartbeats.length).toBeGreaterThanOrEqual(4)
  })

  it('name a job that comes long after the last one when its own interval is over', async () => {
    const { transport } = newServer()
    const job = deferred<object>()
    transport.scripts['/workers/fetch'] = () => job.promise
    await startWorker(transport, () => deferred().promise, { pollInterval: 30_000 })
    await elapse(10_000)
    job.resolve({ jobs: [newJob()] })
    transport.scripts['/workers/fetch'] = () => deferred().promise
    // The lease may have begun a second before the answer came.
    await elapse(3_999)
    expect(transport.heartbeats).toHaveLength(1)
    await elapse(2)
    expect(transport.heartbeats).toMatchObject([{ active_jobs: 0 }, { active_jobs: 1 }])
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

    it('are sent that interval after the fetch, whenever the last one was', async () => {
      const { transport } = newServer()
      transport.scripts['/workers/heartbeat'] = hinting(1_333)
      let jobs: object[] = []
      transport.scripts['/workers/fetch'] = () => ({ jobs: jobs.splice(0) })
      await startWorker(transport, () => deferred().promise)
      await elapse(2_500)
      expect(transport.heartbeats).toHaveLength(1)
      jobs = [newJob()]
      expect(await namedIn(1_800, transport)).toBe(0)
      expect(await namedIn(100, transport)).toBe(1)
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
    await elapse(30_001)
    expect(transport.heartbeats).toHaveLength(3)
    expect(logger.error).toHaveBeenCalledOnce()
  })

  it('are sent while a poll hangs', async () => {
    const { transport } = newServer()
    transport.scripts['/workers/fetch'] = () => deferred().promise
    await startWorker(transport, () => 1)
    await elapse(30_001)
    expect(transport.heartbeats).toHaveLength(3)
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
    await elapse(15_001)
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
    const beats = transport.heartbeats.length
    await elapse(30_000)
    expect(transport.fetches.length).toBeLessThanOrEqual(polls + 1)
    expect(transport.acks).toHaveLength(1)
    expect(transport.heartbeats.at(-1)).toMatchObject({ state: 'quiet' })
    expect(transport.heartbeats).toHaveLength(beats + 2)
  })

  it.each(['quiet', 'terminate'] as const)(
    '%s in the answer of a poll: a heartbeat asks at once, and its answer counts',
    async (told) => {
      const { transport } = newServer()
      const scripts = transport.scripts
      const poll = deferred<object>()
      scripts['/workers/fetch'] = () => poll.promise
      const { worker } = await startWorker(transport, () => 1)
      expect(transport.heartbeats).toHaveLength(1)
      // Meant for the process before this one: the heartbeat tells the server that there is a new one.
      scripts['/workers/heartbeat'] = saying('running')
      scripts['/workers/fetch'] = () => ({ jobs: [], directive: told })
      poll.resolve({ jobs: [], directive: told })
      await elapse(1)
      expect(transport.heartbeats).toHaveLength(2)
      expect(worker.state).toBe('running')
      scripts['/workers/heartbeat'] = saying(told)
      await elapse(1_001)
      expect(worker.state).toBe(told === 'quiet' ? 'quiet' : 'stopped')
    },
  )

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
