import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ControlBacklog } from '../../../src/broker/control/backlog.ts'

const MINUTE_MS = 60_000

let now: number
let told: number
let backlog: ControlBacklog
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  now = 1_000
  told = 0
  backlog = new ControlBacklog({ now: () => now, wall: () => now }, () => {
    told += 1
  })
})
afterEach(() => void vi.useRealTimers())

/** Whether the backlog is consumed, and how often the callback was called. */
const state = () => [backlog.isConsumed, told]

it('the control backlog is consumed when the first messages of every queue are settled; reported once', () => {
  backlog.begin(['a', 'b'])
  backlog.listComplete()
  backlog.depth('a', 2)
  backlog.depth('b', 0)
  backlog.settled('a')
  expect(state()).toEqual([false, 0])
  // Messages that arrived after the first count are no part of the backlog.
  backlog.depth('a', 5)
  backlog.settled('b')
  backlog.settled('a')
  expect(state()).toEqual([true, 1])
  backlog.settled('a')
  backlog.listComplete()
  expect(state()).toEqual([true, 1])
})

it('the control backlog is not consumed while a depth is unknown or the list of queues incomplete', () => {
  backlog.begin(['a'])
  backlog.settled('a')
  expect(state()).toEqual([false, 0])
  backlog.depth('a', 0)
  expect(state()).toEqual([false, 0])
  backlog.queueKnown('b')
  backlog.listComplete()
  expect(state()).toEqual([false, 0])
  backlog.depth('b', 0)
  expect(state()).toEqual([true, 1])
  // A queue that becomes known later has no backlog.
  backlog.queueKnown('c')
  expect(state()).toEqual([true, 1])
})

it('the control backlog is consumed as soon as the list of queues is complete and empty', () => {
  backlog.begin([])
  expect(state()).toEqual([false, 0])
  backlog.listComplete()
  expect(state()).toEqual([true, 1])
})

it('the control backlog of a queue ends when the queue is gone', () => {
  backlog.begin(['a'])
  backlog.listComplete()
  backlog.depth('a', 3)
  backlog.gone('a')
  expect(state()).toEqual([true, 1])
})

it('the control backlog counts as consumed after a minute at the latest', () => {
  backlog.begin(['a'])
  now += MINUTE_MS
  expect(backlog.isConsumed).toBe(false)
  now += 1
  expect(state()).toEqual([true, 0])
  vi.advanceTimersByTime(MINUTE_MS + 100)
  expect(told).toBe(1)
})

it('the control backlog ignores a queue that is no longer known on the next connection', () => {
  backlog.listComplete()
  backlog.begin(['a'])
  backlog.depth('a', 3)
  backlog.end()
  backlog.begin([])
  expect(state()).toEqual([true, 1])
})

it('the control backlog is counted anew for each connection, and not consumed in between', () => {
  backlog.begin(['a'])
  backlog.listComplete()
  backlog.depth('a', 0)
  expect(state()).toEqual([true, 1])
  backlog.end()
  now += 2 * MINUTE_MS
  vi.advanceTimersByTime(2 * MINUTE_MS)
  expect(state()).toEqual([false, 1])
  backlog.begin(['a', 'b'])
  expect(state()).toEqual([false, 1])
  backlog.depth('a', 0)
  backlog.depth('b', 1)
  backlog.settled('b')
  expect(state()).toEqual([true, 2])
  vi.advanceTimersByTime(2 * MINUTE_MS)
  expect(told).toBe(2)
})
