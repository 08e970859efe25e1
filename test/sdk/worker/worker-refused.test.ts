import { afterEach, describe, expect, test, vi } from 'vitest'
import { OJSError, OJSTransportError, OJSWorker } from '../../../src/sdk/index.ts'
import { ScriptedTransport } from '../scripted-transport.ts'

const workers: OJSWorker[] = []
afterEach(() => Promise.all(workers.splice(0).map((worker) => worker.stop())))

function workerOn(transport: ScriptedTransport): OJSWorker {
  const options = { transport, logger: false, handleSignals: false, pollInterval: 5 } as const
  const worker = new OJSWorker(options)
  workers.push(worker)
  return worker
}

function refusal(status: number, code: string): OJSError {
  return new OJSError({ code, message: 'no', status, retryable: false })
}

function refusing(path: string, error: unknown, transport = new ScriptedTransport()) {
  transport.scripts[path] = () => {
    throw error
  }
  return transport
}

describe('OJSWorker.start', () => {
  test.each([
    [400, 'invalid_request'],
    [401, 'x_unauthenticated'],
    [403, 'x_forbidden'],
    [404, 'not_found'],
  ])(
    'rejects with the error of a server that refuses the first requests with %i',
    async (status, code) => {
      const error = refusal(status, code)
      const worker = workerOn(
        refusing('/workers/fetch', error, refusing('/workers/heartbeat', error)),
      )
      await expect(worker.start()).rejects.toBe(error)
      expect(worker.state).toBe('stopped')
    },
  )

  test.each([
    ['not reachable', new OJSTransportError('no connection', { kind: 'network' })],
    ['behind a proxy that answers 404 for it', new OJSTransportError('404', { kind: 'protocol' })],
    ['answering 503', new OJSError({ code: 'backend_error', message: 'no', status: 503 })],
  ])('resolves, and keeps polling, while the server is %s', async (_what, error) => {
    const transport = refusing('/workers/fetch', error, refusing('/workers/heartbeat', error))
    await workerOn(transport).start()
    await expect.poll(() => transport.fetches.length).toBeGreaterThan(2)
  })

  test('resolves if the server answers 404 to heartbeats', async () => {
    const transport = refusing('/workers/heartbeat', refusal(404, 'not_found'))
    await workerOn(transport).start()
    expect(transport.fetches.length).toBeGreaterThan(0)
  })

  test('resolves after five seconds if the server does not answer at all', async () => {
    vi.useFakeTimers()
    try {
      const transport = new ScriptedTransport()
      const silent = () => new Promise<never>(() => {})
      Object.assign(transport.scripts, { '/workers/fetch': silent, '/workers/heartbeat': silent })
      let isStarted = false
      const started = workerOn(transport)
        .start()
        .then(() => {
          isStarted = true
        })
      await vi.advanceTimersByTimeAsync(4_900)
      expect(isStarted).toBe(false)
      await vi.advanceTimersByTimeAsync(200)
      await started
    } finally {
      vi.useRealTimers()
    }
  })

  test('leaves the worker running when the server refuses with 401 only later, as while a key is replaced', async () => {
    const transport = new ScriptedTransport()
    const worker = workerOn(transport)
    await worker.start()
    refusing('/workers/fetch', refusal(401, 'x_unauthenticated'), transport)
    const before = transport.fetches.length
    await expect.poll(() => transport.fetches.length).toBeGreaterThan(before + 2)
    expect(worker.state).toBe('running')
  })
})

test.each([['A B'], ['-a'], [''], ['a_b'], ['a'.repeat(129)]])(
  'OJSWorker constructor throws for the invalid queue name %j',
  (name) => {
    expect(() => new OJSWorker({ url: 'http://h', queues: ['a', name] })).toThrow(TypeError)
  },
)
