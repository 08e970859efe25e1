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
  silent.raiseAgain()
  source.on('SIGTERM', () => undefined)
  const signals = listenToSignals(() => undefined, source)
  source.emit('SIGTERM', 'SIGTERM')
  signals.end()
  signals.raiseAgain()
  expect(source.kill).not.toHaveBeenCalled()
})

it('are nothing in a browser', () => {
  vi.stubGlobal('process', { env: {}, on() {} })
  const signals = listenToSignals(() => undefined)
  signals.raiseAgain()
  signals.end()
  vi.unstubAllGlobals()
})
