import { afterEach, beforeEach, expect, vi } from 'vitest'
import type { Job } from '../../src/sdk/job.ts'
import { OJSError, OJSTransportError } from '../../src/sdk/transport/errors.ts'
import type { JobContext } from '../../src/sdk/worker/execution.ts'
import { OJSWorker } from '../../src/sdk/worker/worker.ts'
import type { OJSWorkerOptions } from '../../src/sdk/worker/worker-options.ts'
import { newJob, newLogger } from './fake-source.ts'
import { ScriptedTransport } from './scripted-transport.ts'

/** HTTP workers on fake timers, for a file of tests. Each stops with its test, and leaves no timer behind. */
export function useHttpWorkers() {
  const workers: OJSWorker[] = []
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(async () => {
    const stopping = workers.splice(0).map((worker) => worker.stop())
    await elapse(40_000)
    await Promise.all(stopping)
    expect(vi.getTimerCount()).toBe(0)
    vi.useRealTimers()
  })

  async function start(handler: (ctx: JobContext) => unknown, options: OJSWorkerOptions) {
    const worker = new OJSWorker({ handleSignals: false, ...options })
    workers.push(worker)
    worker.register('test.job', handler)
    await worker.start()
    return worker
  }

  async function startWorker(
    transport: ScriptedTransport,
    handler: (ctx: JobContext) => unknown,
    options: Partial<OJSWorkerOptions> = {},
  ) {
    const logger = newLogger()
    const timing = { gracePeriod: 0, pollInterval: 1_000 }
    const fixed = { url: 'http://unused', transport, logger, workerId: 'worker_1', ...timing }
    return { worker: await start(handler, { ...fixed, ...options }), logger }
  }
  return { start, startWorker }
}

/** A server with the given jobs. It answers an empty poll only after the `wait_ms` that it asks for. */
export function newServer(jobs: Partial<Job>[] = []) {
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

export const elapse = (ms = 0) => vi.advanceTimersByTimeAsync(ms)

export const networkError = () => new OJSTransportError('no connection', { kind: 'network' })
export const conflict = (currentState: string) =>
  new OJSError({
    code: 'invalid_request',
    message: 'Cannot acknowledge job.',
    status: 409,
    details: { current_state: currentState },
  })
