import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { ExecutionMiddleware, JobContext } from '../../../src/sdk/worker/execution.ts'
import { JobAbortError } from '../../../src/sdk/worker/job-abort-error.ts'
import { OJSWorker } from '../../../src/sdk/worker/worker.ts'
import type { OJSWorkerOptions } from '../../../src/sdk/worker/worker-options.ts'
import { deferred } from '../../support/time/deferred.ts'
import { FakeLease, FakeSource, newLogger } from '../fake-source.ts'

const workers: OJSWorker[] = []
afterEach(async () => {
  vi.useRealTimers()
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
})

async function startWorker(
  setUp: (worker: OJSWorker) => void,
  options: Partial<OJSWorkerOptions> = {},
) {
  const source = new FakeSource()
  const logger = newLogger()
  const worker = new OJSWorker({
    source,
    logger,
    handleSignals: false,
    gracePeriod: 0,
    workerId: 'worker_1',
    ...options,
  })
  workers.push(worker)
  setUp(worker)
  await worker.start()
  const deliver = (over = {}) => {
    const lease = new FakeLease(over)
    source.sink.deliver(lease)
    return lease
  }
  return { worker, source, logger, deliver }
}

const settled = (lease: FakeLease) => expect.poll(() => lease.isSettled).toBe(true)

describe('handlers of a worker', () => {
  it('get the job, and their return value is its result', async () => {
    let seen: JobContext | undefined
    const { deliver } = await startWorker((worker) => {
      worker.register('email.send', (ctx) => {
        seen = ctx
        return { delivered: true }
      })
    })
    const over = { type: 'email.send', args: ['to'], attempt: 3, queue: 'mail', meta: { a: 1 } }
    const lease = deliver(over)
    await settled(lease)
    expect(lease.completed).toEqual([{ delivered: true }])
    expect(seen).toMatchObject({ ...over, job: lease.job, workerId: 'worker_1' })
    expect(seen?.signal.aborted).toBe(false)
  })

  it('are chosen by the type of the job', async () => {
    const { deliver, source } = await startWorker((worker) => {
      worker.register('a', () => 'from a').register('b', async () => 'from b')
    })
    const leases = [deliver({ type: 'b' }), deliver({ type: 'a' })]
    await Promise.all(leases.map(settled))
    expect(leases.map(({ completed }) => completed)).toEqual([['from b'], ['from a']])
    expect(source.options).toMatchObject({ queues: ['default'] })
  })

  it('that are missing fail the job for good', async () => {
    const { deliver } = await startWorker(() => undefined)
    const lease = deliver({ type: 'nobody.knows' })
    await settled(lease)
    expect(lease.failed).toEqual([
      expect.objectContaining({ code: 'handler_error', retryable: false }),
    ])
    expect(lease.failed[0]?.message).toContain("'nobody.knows'")
  })

  it('that throw fail the job as retryable, with type, message and stack', async () => {
    const { deliver } = await startWorker((worker) => {
      worker.register('test.job', () => {
        throw new RangeError('too far')
      })
    })
    const lease = deliver()
    await settled(lease)
    expect(lease.completed).toEqual([])
    expect(lease.failed).toEqual([
      {
        code: 'handler_error',
        type: 'RangeError',
        message: 'too far',
        retryable: true,
        details: { stack: expect.stringContaining('RangeError: too far') },
      },
    ])
  })

  it('whose result is not JSON fail the job for good', async () => {
    const cyclic: Record<string, unknown> = {}
    cyclic['self'] = cyclic
    const results = [cyclic, 1n, () => 1, Symbol('s'), { toJSON: () => undefined }]
    const { deliver } = await startWorker((worker) => {
      worker.register('test.job', ({ args }) => results[Number(args[0])])
    })
    for (const index of results.keys()) {
      const lease = deliver({ args: [index] })
      await settled(lease)
      expect(lease.completed).toEqual([])
      expect(lease.failed).toMatchObject([
        { code: 'handler_error', type: 'ResultError', retryable: false },
      ])
    }
  })

  it('are limited to one per type: a second registration throws', async () => {
    const { worker } = await startWorker((it) => it.register('a', () => undefined))
    expect(() => worker.register('a', () => undefined)).toThrow("handler for 'a' already")
  })
})

describe('middleware of a worker', () => {
  it('runs in the order of seed 004', async () => {
    const order: string[] = []
    const first: ExecutionMiddleware = async (_ctx, next) => {
      order.push('first-before')
      const result = await next()
      order.push('first-after')
      return result
    }
    const { deliver } = await startWorker((worker) => {
      worker.register('test.job', () => void order.push('handler'))
      worker.use(first)
      worker.use('second', async (_ctx, next) => {
        order.push('second-before')
        const result = await next()
        order.push('second-after')
        return result
      })
    })
    await settled(deliver())
    expect(order).toEqual([
      'first-before',
      'second-before',
      'handler',
      'second-after',
      'first-after',
    ])
  })

  it("from seed 004's logging example keeps the handler's result", async () => {
    const lines: string[] = []
    const { deliver } = await startWorker((worker) => {
      worker.register('test.job', () => 'result')
      worker.use(async (ctx, next) => {
        lines.push(`Starting ${ctx.job.type} attempt ${ctx.attempt}`)
        await next()
        lines.push(`Completed ${ctx.job.type}`)
      })
    })
    const lease = deliver({ attempt: 2 })
    await settled(lease)
    expect(lines).toEqual(['Starting test.job attempt 2', 'Completed test.job'])
    expect(lease.completed).toEqual(['result'])
  })

  it('can be named, inserted and removed', async () => {
    const order: string[] = []
    const noting = (name: string) => (_ctx: JobContext, next: () => Promise<unknown>) => {
      order.push(name)
      return next()
    }
    const { deliver, worker } = await startWorker((it) => {
      it.register('test.job', () => undefined)
      it.use('logging', noting('logging')).use('metrics', noting('metrics'))
      it.middleware.insertBefore('metrics', 'tracing', noting('tracing'))
      it.middleware.remove('logging')
    })
    await settled(deliver())
    expect(order).toEqual(['tracing', 'metrics'])
    expect(worker.middleware.names).toEqual(['tracing', 'metrics'])
  })

  it('that throws while the handler runs fails the job, but the slot stays taken until the handler ends', async () => {
    const handler = deferred()
    let signal: AbortSignal | undefined
    const { deliver, worker } = await startWorker((it) => {
      it.register('test.job', (ctx) => {
        signal = ctx.signal
        return handler.promise
      })
      it.use((_ctx, next) => {
        void next()
        throw new Error('impatient')
      })
    })
    const lease = deliver()
    await settled(lease)
    expect(lease.failed).toMatchObject([{ message: 'impatient' }])
    expect(signal?.aborted).toBe(true)
    expect(worker.activeJobs).toBe(1)
    handler.resolve()
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(lease.completed).toEqual([])
  })
})

describe('slots of a worker', () => {
  it('are as many as its concurrency: a further job is released', async () => {
    const handler = deferred()
    const { deliver, source, worker } = await startWorker(
      (it) => it.register('test.job', () => handler.promise),
      { concurrency: 2 },
    )
    expect(source.sink.capacity()).toBe(2)
    deliver()
    expect(source.sink.capacity()).toBe(1)
    deliver()
    expect(source.sink.capacity()).toBe(0)
    const tooMany = deliver()
    expect(worker.activeJobs).toBe(2)
    expect(tooMany).toMatchObject({ releases: 1, completed: [], failed: [] })
    handler.resolve()
    await expect.poll(() => source.sink.capacity()).toBe(2)
    expect(source.calls).toEqual(['start', 'slotFree', 'slotFree'])
  })

  it('are taken until the report is answered', async () => {
    const report = deferred<'settled'>()
    const { source, worker } = await startWorker((it) => it.register('test.job', () => undefined))
    const lease = new FakeLease()
    lease.answer = report.promise
    source.sink.deliver(lease)
    await settled(lease)
    expect(worker.activeJobs).toBe(1)
    expect(source.calls).toEqual(['start'])
    report.resolve('settled')
    await expect.poll(() => source.calls).toEqual(['start', 'slotFree'])
    expect(worker.activeJobs).toBe(0)
  })

  it('are free again when the lease says that the job must not begin', async () => {
    const run = vi.fn()
    const { source, worker } = await startWorker((it) => it.register('test.job', run))
    const lease = new FakeLease()
    lease.begin = async () => false
    source.sink.deliver(lease)
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(run).not.toHaveBeenCalled()
    expect(lease.isSettled).toBe(false)
  })
})

describe('reports that do not succeed', () => {
  it('do not fail the job when the server finds them stale, and are logged once', async () => {
    const { source, logger, worker } = await startWorker((it) => {
      it.register('test.job', () => 'result')
    })
    const lease = new FakeLease()
    lease.answer = 'stale'
    source.sink.deliver(lease)
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(lease).toMatchObject({ completed: ['result'], failed: [], releases: 0 })
    expect(logger.warn).toHaveBeenCalledOnce()
    expect(worker.state).toBe('running')
  })

  it('leave the worker running when both the source and the logger throw', async () => {
    const { source, worker, logger } = await startWorker((it) => it.register('test.job', () => 1))
    logger.error.mockImplementation(() => {
      throw new Error('disk full')
    })
    const lease = new FakeLease()
    lease.complete = () => Promise.reject(new Error('broken source'))
    source.sink.deliver(lease)
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(logger.error).toHaveBeenCalled()
    expect(worker.state).toBe('running')
  })
})

describe('cancellation of a job', () => {
  async function startWaiting(begin?: () => Promise<boolean>) {
    const handler = deferred<unknown>()
    let signal: AbortSignal | undefined
    const run = vi.fn((ctx: JobContext) => {
      signal = ctx.signal
      return handler.promise
    })
    const rest = await startWorker((it) => it.register('test.job', run))
    const lease = new FakeLease()
    if (begin) lease.begin = begin
    rest.source.sink.deliver(lease)
    return { ...rest, lease, handler, run, signal: () => signal }
  }

  it('fires the signal, and nothing is reported even if the handler completes', async () => {
    const { source, lease, handler, signal, worker } = await startWaiting()
    await expect.poll(() => signal()).toBeDefined()
    source.sink.abort(lease.job.id, 'cancelled')
    expect(signal()?.reason).toBeInstanceOf(JobAbortError)
    expect(signal()?.reason).toMatchObject({ reason: 'cancelled', name: 'AbortError' })
    expect(worker.activeJobs).toBe(1)
    handler.resolve('done all the same')
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(lease.isSettled).toBe(false)
  })

  it('keeps the handler from starting if it comes before the lease has begun', async () => {
    const begun = deferred<boolean>()
    const { source, lease, run, worker } = await startWaiting(() => begun.promise)
    source.sink.abort(lease.job.id, 'cancelled')
    begun.resolve(true)
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(run).not.toHaveBeenCalled()
    expect(lease.isSettled).toBe(false)
  })

  it('keeps the handler from starting if it comes while middleware waits', async () => {
    const entered = deferred()
    const middle = deferred()
    const run = vi.fn()
    const { source, deliver, worker } = await startWorker((it) => {
      it.register('test.job', run)
      it.use(async (_ctx, next) => {
        entered.resolve()
        await middle.promise
        await next()
      })
    })
    const lease = deliver()
    await entered.promise
    source.sink.abort(lease.job.id, 'cancelled')
    middle.resolve()
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(run).not.toHaveBeenCalled()
  })

  it('is implied when outer middleware throws: inner middleware cannot start the handler any more', async () => {
    const inner = deferred()
    const run = vi.fn()
    const { deliver, worker } = await startWorker((it) => {
      it.register('test.job', run)
      it.use(async (_ctx, next) => {
        void next().catch(() => undefined)
        throw new Error('took too long')
      })
      it.use(async (_ctx, next) => {
        await inner.promise
        return await next()
      })
    })
    const lease = deliver()
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(lease.failed).toMatchObject([{ message: 'took too long' }])
    inner.resolve()
    await nextTurn()
    expect(run).not.toHaveBeenCalled()
  })

  it('with reason lost fires the signal, but the result is still reported', async () => {
    const { source, lease, handler, signal, worker } = await startWaiting()
    await expect.poll(() => signal()).toBeDefined()
    source.sink.abort(lease.job.id, 'lost')
    expect(signal()?.reason).toMatchObject({ reason: 'lost' })
    handler.resolve('result')
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(lease.completed).toEqual(['result'])
  })

  it('of an unknown job does nothing', async () => {
    const { source } = await startWorker(() => undefined)
    expect(() => source.sink.abort('unknown', 'cancelled')).not.toThrow()
  })

  it('aborts the older execution when the same job is delivered again', async () => {
    const handlers = [deferred<string>(), deferred<string>()]
    const signals: AbortSignal[] = []
    const { source, worker } = await startWorker((it) => {
      it.register('test.job', ({ signal, attempt }) => {
        signals.push(signal)
        return handlers[attempt - 1]?.promise
      })
    })
    const [first, second] = [
      new FakeLease({ id: 'same' }),
      new FakeLease({ id: 'same', attempt: 2 }),
    ]
    source.sink.deliver(first)
    await expect.poll(() => signals).toHaveLength(1)
    source.sink.deliver(second)
    await expect.poll(() => signals).toHaveLength(2)
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false])
    handlers[0]?.resolve('one')
    await expect.poll(() => worker.activeJobs).toBe(1)
    source.sink.abort('same', 'cancelled')
    expect(signals[1]?.reason).toMatchObject({ reason: 'cancelled' })
    handlers[1]?.resolve('two')
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(second.isSettled).toBe(false)
  })
})

describe('execution timeout of a job', () => {
  it('fails the job at once; the slot stays taken until the handler has ended', async () => {
    vi.useFakeTimers()
    const handler = deferred<string>()
    let signal: AbortSignal | undefined
    const { deliver, worker } = await startWorker((it) => {
      it.register('test.job', (ctx) => {
        signal = ctx.signal
        return handler.promise
      })
    })
    const lease = deliver({ timeout_ms: 500 })
    await vi.advanceTimersByTimeAsync(499)
    expect(lease.isSettled).toBe(false)
    await vi.advanceTimersByTimeAsync(2)
    expect(lease.failed).toMatchObject([{ code: 'timeout', type: 'TimeoutError', retryable: true }])
    expect(signal?.reason).toMatchObject({ name: 'TimeoutError', reason: 'timeout' })
    expect(worker.activeJobs).toBe(1)
    handler.resolve('late')
    await vi.advanceTimersByTimeAsync(0)
    expect(worker.activeJobs).toBe(0)
    expect(lease).toMatchObject({ completed: [], releases: 0 })
    expect(lease.failed).toHaveLength(1)
  })

  it('does not fail a job that ended in time, and leaves no timer', async () => {
    vi.useFakeTimers()
    const { deliver } = await startWorker((it) => it.register('test.job', () => 'result'))
    const lease = deliver({ timeout_ms: 500 })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(lease).toMatchObject({ completed: ['result'], failed: [] })
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('shutdown of a worker', () => {
  it('waits for the running job, and releases a job that is delivered meanwhile', async () => {
    const handler = deferred<string>()
    const { worker, source, deliver } = await startWorker(
      (it) => it.register('test.job', () => handler.promise),
      { gracePeriod: 60_000 },
    )
    const lease = deliver()
    const stopping = worker.stop()
    expect(worker.stop()).toBe(stopping)
    expect(source.sink.capacity()).toBe(0)
    expect(source.sink.state()).toBe('terminate')
    const late = deliver()
    expect(late.releases).toBe(1)
    handler.resolve('result')
    expect(await stopping).toEqual({ abandoned: [] })
    expect(lease.completed).toEqual(['result'])
    expect(source.calls).toEqual(['start', 'quiet', 'slotFree', 'stop'])
    expect(worker.state).toBe('stopped')
    expect(await worker.stopped).toEqual({ abandoned: [] })
  })

  it('releases a job that outlives the grace period, and names it as abandoned', async () => {
    vi.useFakeTimers()
    const handler = deferred<string>()
    let signal: AbortSignal | undefined
    const { worker, deliver, logger } = await startWorker(
      (it) => {
        it.register('test.job', (ctx) => {
          signal = ctx.signal
          return handler.promise
        })
      },
      { gracePeriod: 1_000 },
    )
    const lease = deliver()
    const stopping = worker.stop()
    await vi.advanceTimersByTimeAsync(900)
    expect(signal?.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(200)
    expect(await stopping).toEqual({ abandoned: [lease.job.id] })
    expect(signal?.reason).toMatchObject({ reason: 'shutdown' })
    expect(lease.releases).toBe(1)
    const details = expect.objectContaining({ job_ids: [lease.job.id] })
    expect(logger.error).toHaveBeenCalledWith(
      'jobs left unfinished or unreported at shutdown; they will run again',
      details,
    )
    handler.resolve('late')
    await vi.advanceTimersByTimeAsync(0)
    expect(lease).toMatchObject({ completed: [], failed: [], releases: 1 })
    expect(vi.getTimerCount()).toBe(0)
  })

  it('ends after five seconds if a release does not', async () => {
    vi.useFakeTimers()
    const { worker, source } = await startWorker((it) => {
      it.register('test.job', () => deferred().promise)
    })
    const lease = new FakeLease()
    lease.release = () => deferred().promise
    source.sink.deliver(lease)
    const stopping = worker.stop()
    await vi.advanceTimersByTimeAsync(5_100)
    expect(await stopping).toEqual({ abandoned: [lease.job.id] })
    expect(source.calls.at(-1)).toBe('stop')
  })

  it('waits for a report that is under way', async () => {
    const { worker, source, deliver } = await startWorker(
      (it) => it.register('test.job', () => 'result'),
      { gracePeriod: 0 },
    )
    const lease = deliver()
    const answered = deferred<'settled'>()
    lease.answer = answered.promise
    await expect.poll(() => lease.completed).toEqual(['result'])
    const stopping = worker.stop()
    await nextTurn()
    expect(source.calls).not.toContain('stop')
    answered.resolve('settled')
    expect(await stopping).toEqual({ abandoned: [] })
    expect(source.calls).toContain('stop')
  })

  it('names as abandoned a job that ended during shutdown and could not be reported', async () => {
    const ends = [deferred<void>(), deferred<void>()]
    const { worker, deliver } = await startWorker(
      (it) => it.register<[index: number]>('test.job', ({ args: [i] }) => ends[i]?.promise),
      { gracePeriod: 60_000 },
    )
    const [before, lease] = [deliver({ args: [0] }), deliver({ args: [1] })]
    for (const each of [before, lease]) each.answer = 'failed'
    ends[0]?.resolve()
    await expect.poll(() => worker.activeJobs).toBe(1)
    const stopping = worker.stop()
    ends[1]?.resolve()
    expect(await stopping).toEqual({ abandoned: [lease.job.id] })
  })

  it('does not name a job whose report was stale', async () => {
    const end = deferred<void>()
    const { worker, deliver } = await startWorker(
      (it) => it.register('test.job', () => end.promise),
      { gracePeriod: 60_000 },
    )
    deliver().answer = 'stale'
    const stopping = worker.stop()
    end.resolve()
    expect(await stopping).toEqual({ abandoned: [] })
  })

  it('completes although the source throws synchronously in quiet()', async () => {
    const { worker, source } = await startWorker(() => undefined)
    source.quiet = () => {
      throw new Error('not a promise')
    }
    expect(await worker.stop()).toEqual({ abandoned: [] })
    expect(source.calls).toEqual(['start', 'stop'])
    expect(worker.state).toBe('stopped')
  })

  it('is immediate for an idle worker, and prevents the start of one that never started', async () => {
    const { worker, source } = await startWorker(() => undefined, { gracePeriod: 60_000 })
    await worker.stop()
    expect(source.calls).toEqual(['start', 'quiet', 'stop'])
    const unused = new FakeSource()
    const idle = new OJSWorker({ source: unused })
    expect(idle.state).toBe('idle')
    await idle.stop()
    expect(unused.calls).toEqual([])
    await expect(idle.start()).rejects.toThrow('stopped')
  })

  it('follows when the source cannot start, and leaves no signal listener', async () => {
    const source = new FakeSource()
    source.startError = new Error('wrong url')
    const worker = new OJSWorker({ source, logger: newLogger() })
    const before = process.listenerCount('SIGTERM')
    await expect(worker.start()).rejects.toThrow('wrong url')
    expect(worker.state).toBe('stopped')
    expect(source.calls.at(-1)).toBe('stop')
    expect(process.listenerCount('SIGTERM')).toBe(before)
  })
})

describe('directives of the server', () => {
  it('quiet: the worker takes no new job and finishes the running one', async () => {
    const handler = deferred<string>()
    const { worker, source, deliver } = await startWorker((it) => {
      it.register('test.job', () => handler.promise)
    })
    const lease = deliver()
    source.sink.directive('quiet')
    source.sink.directive('quiet')
    expect(worker.state).toBe('quiet')
    expect(source.calls).toEqual(['start', 'quiet'])
    expect(source.sink.capacity()).toBe(0)
    handler.resolve('result')
    await expect.poll(() => worker.activeJobs).toBe(0)
    expect(lease.completed).toEqual(['result'])
    expect(worker.state).toBe('quiet')
  })

  it('terminate: the worker shuts down', async () => {
    const { worker, source } = await startWorker(() => undefined)
    source.sink.directive('terminate')
    await worker.stopped
    expect(worker.state).toBe('stopped')
    source.sink.directive('quiet')
    expect(worker.state).toBe('stopped')
  })
})

describe('options of a worker', () => {
  it.each<[string, OJSWorkerOptions, string]>([
    ['no url, transport or source', {}, 'url, a transport or a source'],
    [
      'an AMQP URL',
      { url: 'amqp://guest:secret@host' },
      "import { NativeWorker } from 'ojs-rabbitmq",
    ],
    ['a text that is no URL', { url: 'localhost' }, 'http://'],
    ['no queue', { url: 'http://h', queues: [] }, 'queues'],
    [
      'a queue without a name',
      { url: 'http://h', queues: ['email', ''] },
      '"" is not a valid queue name',
    ],
    ['queues that are no list', { url: 'http://h', queues: 'email' as never }, 'queues'],
    ['a concurrency of 0', { url: 'http://h', concurrency: 0 }, 'concurrency'],
    ['a concurrency of 1.5', { url: 'http://h', concurrency: 1.5 }, 'concurrency'],
    ['an empty worker id', { url: 'http://h', workerId: '' }, 'workerId'],
    ['a worker id of 256 characters', { url: 'http://h', workerId: 'x'.repeat(256) }, 'workerId'],
    [
      'a worker id that is a number',
      { url: 'http://h', workerId: 7 as unknown as string },
      'workerId',
    ],
    ['a visibility timeout of 0', { url: 'http://h', visibilityTimeout: 0 }, 'visibilityTimeout'],
    ['a negative grace period', { url: 'http://h', gracePeriod: -1 }, 'gracePeriod'],
  ])('are refused with a TypeError: %s', (_name, options, message) => {
    const make = () => new OJSWorker(options)
    expect(make).toThrow(TypeError)
    expect(make).toThrow(message)
    expect(make).not.toThrow('secret')
  })

  it('default to a random worker id', () => {
    const [one, other] = [new OJSWorker({ url: 'http://h' }), new OJSWorker({ url: 'http://h' })]
    expect(one.workerId).toMatch(/^worker_[0-9a-f]{24}$/)
    expect(one.workerId).not.toBe(other.workerId)
  })
})
