import { EventEmitter } from 'node:events'
import { expect, it, vi } from 'vitest'
import { listenToSignals } from '../../src/sdk/signals.ts'

function newProcess() {
  return Object.assign(new EventEmitter(), { pid: 7, kill: vi.fn() })
}

it.each(['SIGTERM', 'SIGINT'])('%s is told, each time, until the end', (signal) => {
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
})

it('are raised again for a process that would not end', () => {
  const source = newProcess()
  const signals = listenToSignals(() => undefined, source)
  source.emit('SIGTERM', 'SIGTERM')
  signals.end()
  signals.raiseAgain()
  expect(source.kill).toHaveBeenCalledExactlyOnceWith(7, 'SIGTERM')
})

it('are left to others who listen, and never made up', () => {
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

it('are raised again when the last worker has ended, whichever hangs', () => {
  const source = newProcess()
  const [hanging, slow] = [1, 2].map(() => listenToSignals(() => undefined, source))
  source.emit('SIGTERM', 'SIGTERM')
  hanging?.end()
  expect([hanging?.raiseAgain(), source.kill.mock.calls]).toEqual([false, []])
  slow?.end()
  expect([hanging?.raiseAgain(), source.kill.mock.calls]).toEqual([true, [[7, 'SIGTERM']]])
})

it('are heard by any number of workers with one listener', () => {
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

it('are heard by who comes after all listeners were removed', () => {
  const source = newProcess()
  listenToSignals(() => undefined, source)
  source.removeAllListeners()
  const onSignal = vi.fn()
  listenToSignals(onSignal, source)
  source.emit('SIGTERM', 'SIGTERM')
  expect(onSignal).toHaveBeenCalledExactlyOnceWith('SIGTERM')
})

it('are nothing in a browser', () => {
  vi.stubGlobal('process', { env: {}, on() {} })
  const signals = listenToSignals(() => undefined)
  signals.raiseAgain()
  signals.end()
  vi.unstubAllGlobals()
})
