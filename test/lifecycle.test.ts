import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { type Service, startAll, stopAll, untilDeadline } from '../src/lifecycle.ts'
import { createLogger } from '../src/logger.ts'

const listeners = (deadline: AbortSignal) => getEventListeners(deadline, 'abort').length

describe('untilDeadline', () => {
  it('waits for the work, and removes its listener', async () => {
    const { signal } = new AbortController()
    const waiting = untilDeadline(new Promise(setImmediate), signal)
    expect(listeners(signal)).toBe(1)
    await waiting
    expect(listeners(signal)).toBe(0)
  })

  it('stops waiting at the deadline, and removes its listener', async () => {
    const deadline = new AbortController()
    const waiting = untilDeadline(new Promise(() => {}), deadline.signal)
    deadline.abort()
    await waiting
    expect(listeners(deadline.signal)).toBe(0)
  })

  it('does not wait when the deadline has passed already', async () => {
    await untilDeadline(new Promise(() => {}), AbortSignal.abort())
  })

  it('fails with the work, and removes its listener', async () => {
    const { signal } = new AbortController()
    await expect(untilDeadline(Promise.reject(new Error('no')), signal)).rejects.toThrow('no')
    expect(listeners(signal)).toBe(0)
  })
})

describe('services', () => {
  const logger = createLogger('silent')
  const { signal: never } = new AbortController()

  function three(broken: { start?: string; stop?: string } = {}) {
    const said: string[] = []
    const services = ['ledger', 'broker', 'http'].map((name): Service => {
      const say = async (verb: 'start' | 'stop') => {
        said.push(`${verb} ${name}`)
        if (broken[verb] === name) throw new Error(`${name} cannot ${verb}`)
      }
      return { name, start: () => say('start'), stop: () => say('stop') }
    })
    return { services, said }
  }

  it('stop in reverse order, even if one of them fails to stop', async () => {
    const { services, said } = three({ stop: 'broker' })
    await stopAll(services, never, logger)
    expect(said).toEqual(['stop http', 'stop broker', 'stop ledger'])
  })

  it('that have started are stopped when a later one fails to start', async () => {
    const { services, said } = three({ start: 'http' })
    await expect(startAll(services, logger)).rejects.toThrow('http cannot start')
    expect(said.slice(3)).toEqual(['stop broker', 'stop ledger'])
  })
})
