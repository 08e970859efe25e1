import { EventEmitter } from 'node:events'
import { expect, it, vi } from 'vitest'
import { listenToSignals } from '../../../src/sdk/worker/signals.ts'

function newProcess() {
  return Object.assign(new EventEmitter(), { pid: 7, kill: vi.fn() })
}

it.each(['SIGTERM', 'SIGINT'])(
  'listenToSignals reports every %s until it is ended, then leaves no listener',
  (signal) => {
    const source = newProcess()
    const heard: string[] = []
    const signals = listenToSignals((name) => heard.push(name), source)
    source.emit(signal, signal)
    source.emit(signal, signal)
    expect(heard).toEqual([signal, signal])
    signals.end()
    source.emit(signal, signal)
    expect(heard).toHaveLength(2)
    expect(source.eventNames()).toEqual([])
    expect(source.kill).not.toHaveBeenCalled()
  },
)

it('raiseAgain sends a received signal to the process once more', () => {
  const source = newProcess()
  const signals = listenToSignals(() => undefined, source)
  source.emit('SIGTERM', 'SIGTERM')
  signals.end()
  signals.raiseAgain()
  expect(source.kill).toHaveBeenCalledExactlyOnceWith(7, 'SIGTERM')
})

it('raiseAgain sends nothing if no signal came, or if other code listens to it', () => {
  const source = newProcess()
  const silent = listenToSignals(() => undefined, source)
  silent.end()
  expect(silent.raiseAgain()).toBe(true)
  source.on('SIGTERM', () => undefined)
  const signals = listenToSignals(() => undefined, source)
  source.emit('SIGTERM', 'SIGTERM')
  signals.end()
  signals.raiseAgain()
  expect(source.kill).not.toHaveBeenCalled()
})

it('raiseAgain sends the signal only after all workers have ended', () => {
  const source = newProcess()
  const [hanging, slow] = [1, 2].map(() => listenToSignals(() => undefined, source))
  source.emit('SIGTERM', 'SIGTERM')
  hanging?.end()
  expect([hanging?.raiseAgain(), source.kill.mock.calls]).toEqual([false, []])
  slow?.end()
  expect([hanging?.raiseAgain(), source.kill.mock.calls]).toEqual([true, [[7, 'SIGTERM']]])
})

it('listenToSignals reports a signal to 30 workers with a single process listener', () => {
  const source = newProcess()
  const heard: number[] = []
  const all = Array.from({ length: 30 }, (_, i) => listenToSignals(() => heard.push(i), source))
  expect(source.listenerCount('SIGTERM')).toBe(1)
  source.emit('SIGTERM', 'SIGTERM')
  expect(heard).toEqual([...all.keys()])
  for (const { end } of all.slice(1)) end()
  source.emit('SIGINT', 'SIGINT')
  expect(heard).toHaveLength(31)
  for (const { raiseAgain } of all) raiseAgain()
  expect(source.kill).not.toHaveBeenCalled()
  all[0]?.end()
  expect(source.eventNames()).toEqual([])
})

it('listenToSignals listens anew after all listeners of the process were removed', () => {
  const source = newProcess()
  listenToSignals(() => undefined, source)
  source.removeAllListeners()
  const onSignal = vi.fn()
  listenToSignals(onSignal, source)
  source.emit('SIGTERM', 'SIGTERM')
  expect(onSignal).toHaveBeenCalledExactlyOnceWith('SIGTERM')
})

it('listenToSignals does not throw with the process object of a browser bundle', () => {
  vi.stubGlobal('process', { env: {}, on() {} })
  const signals = listenToSignals(() => undefined)
  signals.raiseAgain()
  signals.end()
  vi.unstubAllGlobals()
})
