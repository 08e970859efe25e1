import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Deadlines } from '../../../src/sdk/async/deadline-timer.ts'
import { Pause } from '../../../src/sdk/async/sleep.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const inMs = (ms: number) => performance.now() + ms

it('deadlines fire once each, in order of time, with a single timer', async () => {
  const due: string[] = []
  const deadlines = new Deadlines<string>((name) => due.push(name))
  deadlines.set('late', inMs(300))
  deadlines.set('early', inMs(100))
  deadlines.set('taken back', inMs(150))
  deadlines.set('middle', inMs(200))
  expect(vi.getTimerCount()).toBe(1)
  deadlines.delete('taken back')
  await vi.advanceTimersByTimeAsync(99)
  expect(due).toEqual([])
  await vi.advanceTimersByTimeAsync(2)
  expect(due).toEqual(['early'])
  await vi.advanceTimersByTimeAsync(500)
  expect(due).toEqual(['early', 'middle', 'late'])
  expect(vi.getTimerCount()).toBe(0)
})

it('deadlines leave no timer once all are deleted', () => {
  const deadlines = new Deadlines<string>(() => undefined)
  deadlines.set('one', inMs(100))
  deadlines.delete('one')
  expect(vi.getTimerCount()).toBe(0)
})

it('a deadline beyond the limit of setTimeout neither fires at once nor sets further timers', async () => {
  const due: string[] = []
  const deadlines = new Deadlines<string>((name) => due.push(name))
  deadlines.set('in a century', inMs(3_155_760_000_000))
  // No spy: `restoreAllMocks` of a later file in this process would install the fake timer again.
  const { setTimeout: fake } = globalThis
  let furtherTimers = 0
  globalThis.setTimeout = ((...args: Parameters<typeof setTimeout>) => {
    furtherTimers++
    return fake(...args)
  }) as typeof setTimeout
  await vi.advanceTimersByTimeAsync(1_000)
  globalThis.setTimeout = fake
  expect(due).toEqual([])
  expect(furtherTimers).toBe(0)
})

it('a deadline may delete and set other deadlines while it fires', async () => {
  const due: string[] = []
  const deadlines = new Deadlines<string>((name) => {
    due.push(name)
    if (name === 'first') {
      deadlines.delete('second')
      deadlines.set('third', inMs(50))
    }
  })
  deadlines.set('first', inMs(100))
  deadlines.set('second', inMs(100))
  await vi.advanceTimersByTimeAsync(1_000)
  expect(due).toEqual(['first', 'third'])
})

it('a pause beyond the limit of setTimeout does not end at once', async () => {
  let isOver = false
  void new Pause().sleep(2 ** 31).then(() => {
    isOver = true
  })
  await vi.advanceTimersByTimeAsync(1_000)
  expect(isOver).toBe(false)
})
