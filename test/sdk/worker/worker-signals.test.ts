import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { OJSWorker } from '../../../src/sdk/worker/worker.ts'
import { deferred } from '../../support/time/deferred.ts'
import { FakeLease, FakeSource, newLogger } from '../fake-source.ts'

const { raiseAgain } = vi.hoisted(() => ({ raiseAgain: vi.fn<() => boolean>() }))
vi.mock('../../../src/sdk/worker/signals.ts', async (original) => ({
  ...(await original()),
  listenToSignals: () => ({ end: () => {}, raiseAgain }),
}))

beforeEach(() => {
  vi.useFakeTimers()
  raiseAgain.mockReset()
})
afterEach(() => {
  vi.useRealTimers()
})

async function stopped(handler: () => unknown, ms: number): Promise<void> {
  const source = new FakeSource()
  const worker = new OJSWorker({ source, logger: newLogger(), gracePeriod: 0 })
  worker.register('test.job', handler)
  await worker.start()
  source.sink.deliver(new FakeLease())
  await vi.advanceTimersByTimeAsync(0)
  const stopping = worker.stop()
  await vi.advanceTimersByTimeAsync(ms)
  await stopping
}

it('a stopped worker whose handler hangs calls raiseAgain repeatedly until it succeeds', async () => {
  const end = deferred<void>()
  raiseAgain.mockReturnValueOnce(false).mockReturnValueOnce(false).mockReturnValue(true)
  await stopped(() => end.promise, 10_000)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(raiseAgain).toHaveBeenCalledTimes(3)
  end.resolve()
})

it('a stopped worker without a hanging handler neither sets a timer nor calls raiseAgain', async () => {
  await stopped(() => 1, 0)
  expect([vi.getTimerCount(), raiseAgain.mock.calls]).toEqual([0, []])
})
