import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ControlBacklog } from '../../src/broker/control-backlog.ts'

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

/** Has what lay there been settled, and how often was that told? */
const state = () => [backlog.isConsumed, told]

it('is consumed when all that lay in every queue is settled, and that is told once', () => {
  backlog.begin(['a', 'b'])
  backlog.listComplete()
  backlog.depth('a', 2)
  backlog.depth('b', 0)
  backlog.settled('a')
  expect(state()).toEqual([false, 0])
  // What came since is no part of it.
  backlog.depth('a', 5)
  backlog.settled('b')
  backlog.settled('a')
  expect(state()).toEqual([true, 1])
  backlog.settled('a')
  backlog.listComplete()
  expect(state()).toEqual([true, 1])
})

it('is not while a queue was not asked, or may yet become known', () => {
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
  // One that is new has none.
  backlog.queueKnown('c')
  expect(state()).toEqual([true, 1])
})

it('is consumed as soon as all are known, where none of them has any', () => {
  backlog.begin([])
  expect(state()).toEqual([false, 0])
  backlog.listComplete()
  expect(state()).toEqual([true, 1])
})

it('goes with its queue', () => {
  backlog.begin(['a'])
  backlog.listComplete()
  backlog.depth('a', 3)
  backlog.gone('a')
  expect(state()).toEqual([true, 1])
})

it('is waited for no longer than a minute', () => {
  backlog.begin(['a'])
  now += MINUTE_MS
  expect(backlog.isConsumed).toBe(false)
  now += 1
  expect(state()).toEqual([true, 0])
  vi.advanceTimersByTime(MINUTE_MS + 100)
  expect(told).toBe(1)
})

it('is not that of a queue which is known no more', () => {
  backlog.listComplete()
  backlog.begin(['a'])
  backlog.depth('a', 3)
  backlog.end()
  backlog.begin([])
  expect(state()).toEqual([true, 1])
})

it('begins anew with each connection; in between nothing is known', () => {
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
