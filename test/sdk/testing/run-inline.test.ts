import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { runInline } from '../../../src/sdk/testing/run-inline.ts'
import type { JobContext } from '../../../src/sdk/worker/execution.ts'
import { OJSWorker } from '../../../src/sdk/worker/worker.ts'

describe('runInline', () => {
  it('runs the handler of the job type and returns its result', async () => {
    const handlers = { add: ({ args }: { args: unknown[] }) => Number(args[0]) + Number(args[1]) }
    const outcome = await runInline(handlers, { type: 'add', args: [1, 2] })
    expect(outcome).toEqual({ state: 'completed', result: 3 })
  })

  it('accepts handlers with typed args, as `register` does', async () => {
    const handlers = { greet: ({ args: [name] }: JobContext<[string]>) => `Hello ${name}` }
    const outcome = await runInline(handlers, { type: 'greet', args: ['you'] })
    expect(outcome).toEqual({ state: 'completed', result: 'Hello you' })
    const count = await runInline(
      { count: ({ args }) => args.length },
      { type: 'count', args: [1] },
    )
    expect(count).toEqual({ state: 'completed', result: 1 })
  })

  it('gives a workflow step its parent results', async () => {
    const handlers = { sum: ({ job: { parent_results: before } }: JobContext) => before }
    const job = { type: 'sum', workflow_id: 'w', workflow_step: 's', parent_results: [1, 2] }
    expect(await runInline(handlers, job)).toEqual({ state: 'completed', result: [1, 2] })
  })

  it('fails a job whose result is not JSON', async () => {
    expect(await runInline({ odd: () => () => 1 }, { type: 'odd' })).toMatchObject({
      state: 'failed',
      error: { type: 'ResultError' },
    })
  })

  it('runs a worker’s handler through its middleware, without its source', async () => {
    const worker = new OJSWorker({ url: 'http://unused.invalid', workerId: 'w' })
    worker.register('who', ({ workerId, attempt, queue }) => [workerId, attempt, queue])
    worker.use(async (_ctx, next) => ['wrapped', await next()])
    const outcome = await runInline(worker, { type: 'who', attempt: 4, queue: 'mail' })
    expect(outcome).toEqual({ state: 'completed', result: ['wrapped', ['w', 4, 'mail']] })
    expect(worker.state).toBe('idle')
  })

  it('returns the structured error of a handler that rejects', async () => {
    const handlers = {
      fail: () => Promise.reject(Object.assign(new Error('no'), { retryable: false })),
    }
    const outcome = await runInline(handlers, { type: 'fail' })
    expect(outcome).toMatchObject({
      state: 'failed',
      error: { code: 'handler_error', message: 'no', retryable: false },
    })
  })

  it('cancels 20 jobs by one signal, without a leak warning of Node.js', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const controller = new AbortController()
    const hang = ({ signal }: JobContext) =>
      new Promise((resolve) => signal.addEventListener('abort', resolve))
    const jobs = Array.from({ length: 20 }, () =>
      runInline({ hang }, { type: 'hang' }, { signal: controller.signal }),
    )
    controller.abort()
    expect(await Promise.all(jobs)).toEqual(jobs.map(() => ({ state: 'cancelled' })))
    expect(warned).not.toHaveBeenCalled()
    warned.mockRestore()
  })

  it('removes its listener from the signal after the job', async () => {
    const { signal } = new AbortController()
    await runInline({ ok: () => 1 }, { type: 'ok' }, { signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('fails without retry if there is no handler, also for a type named constructor', async () => {
    const outcome = await runInline({}, { type: 'constructor' })
    expect(outcome).toMatchObject({ state: 'failed', error: { retryable: false } })
  })

  it('fails with code timeout at timeout_ms', async () => {
    const handlers = {
      slow: ({ signal }: { signal: AbortSignal }) =>
        new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
    }
    const outcome = await runInline(handlers, { type: 'slow', timeout_ms: 10 })
    expect(outcome).toMatchObject({ state: 'failed', error: { code: 'timeout' } })
  })

  it('does not wait at timeout or cancel for a handler that ignores its signal', async () => {
    const handlers = { hang: () => new Promise(() => {}) }
    const overrun = await runInline(handlers, { type: 'hang', timeout_ms: 10 })
    expect(overrun).toMatchObject({ state: 'failed', error: { code: 'timeout' } })
    const controller = new AbortController()
    const cancelled = runInline(handlers, { type: 'hang' }, { signal: controller.signal })
    controller.abort()
    expect(await cancelled).toEqual({ state: 'cancelled' })
  })

  it('waits at the timeout for the cleanup of a handler that heeds its signal', async () => {
    let isClean = false
    const handlers = {
      slow: async ({ signal }: { signal: AbortSignal }) => {
        try {
          await new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason))
          })
        } finally {
          await new Promise((resolve) => setTimeout(resolve, 10))
          isClean = true
        }
      },
    }
    await runInline(handlers, { type: 'slow', timeout_ms: 10 })
    expect(isClean).toBe(true)
  })

  it('returns state cancelled if the signal fires in the handler or before the start', async () => {
    const controller = new AbortController()
    const handlers = {
      cancelling: ({ signal }: { signal: AbortSignal }) => {
        controller.abort()
        return String(signal.aborted)
      },
    }
    const options = { signal: controller.signal }
    expect(await runInline(handlers, { type: 'cancelling' }, options)).toEqual({
      state: 'cancelled',
    })
    expect(await runInline(handlers, { type: 'cancelling' }, options)).toEqual({
      state: 'cancelled',
    })
  })
})
