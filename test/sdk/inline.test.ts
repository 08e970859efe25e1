import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import type { JobContext } from '../../src/sdk/execution.ts'
import { runInline } from '../../src/sdk/inline.ts'
import { OJSWorker } from '../../src/sdk/worker.ts'

describe('inline execution', () => {
  it('runs a handler of a list', async () => {
    const handlers = { add: ({ args }: { args: unknown[] }) => Number(args[0]) + Number(args[1]) }
    const outcome = await runInline(handlers, { type: 'add', args: [1, 2] })
    expect(outcome).toEqual({ state: 'completed', result: 3 })
  })

  it('takes handlers with types of their own, as `register` does', async () => {
    const handlers = { greet: ({ args: [name] }: JobContext<[string]>) => `Hello ${name}` }
    const outcome = await runInline(handlers, { type: 'greet', args: ['you'] })
    expect(outcome).toEqual({ state: 'completed', result: 'Hello you' })
    const count = await runInline(
      { count: ({ args }) => args.length },
      { type: 'count', args: [1] },
    )
    expect(count).toEqual({ state: 'completed', result: 1 })
  })

  it('tells a step of a workflow what came before it', async () => {
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

  it('answers the structured error', async () => {
    const handlers = {
      fail: () => Promise.reject(Object.assign(new Error('no'), { retryable: false })),
    }
    const outcome = await runInline(handlers, { type: 'fail' })
    expect(outcome).toMatchObject({
      state: 'failed',
      error: { code: 'handler_error', message: 'no', retryable: false },
    })
  })

  it('takes one signal for many jobs at a time', async () => {
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

  it('leaves nothing behind at a signal that lasts', async () => {
    const { signal } = new AbortController()
    await runInline({ ok: () => 1 }, { type: 'ok' }, { signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('answers that there is no handler', async () => {
    const outcome = await runInline({}, { type: 'constructor' })
    expect(outcome).toMatchObject({ state: 'failed', error: { retryable: false } })
  })

  it('keeps the time limit', async () => {
    const handlers = {
      slow: ({ signal }: { signal: AbortSignal }) =>
        new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
    }
    const outcome = await runInline(handlers, { type: 'slow', timeout_ms: 10 })
    expect(outcome).toMatchObject({ state: 'failed', error: { code: 'timeout' } })
  })

  it('does not wait for a handler that heeds no signal', async () => {
    const handlers = { hang: () => new Promise(() => {}) }
    const overrun = await runInline(handlers, { type: 'hang', timeout_ms: 10 })
    expect(overrun).toMatchObject({ state: 'failed', error: { code: 'timeout' } })
    const controller = new AbortController()
    const cancelled = runInline(handlers, { type: 'hang' }, { signal: controller.signal })
    controller.abort()
    expect(await cancelled).toEqual({ state: 'cancelled' })
  })

  it('gives a handler that heeds its signal time for what it does at last', async () => {
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

  it('can be cancelled', async () => {
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
