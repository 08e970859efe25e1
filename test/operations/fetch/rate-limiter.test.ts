import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { JobRateLimit } from '../../../src/job/rate-limit.ts'
import { StartLimits } from '../../../src/operations/fetch/rate-limiter.ts'

const START = 1_000_000

let released: string[] = []
/** Ids of the jobs whose delivery was lost with its channel. */
let gone: Set<string>
let limits: StartLimits
beforeEach(() => {
  vi.useFakeTimers({ now: START })
  released = []
  const clock = { now: () => Date.now(), wall: () => Date.now() }
  gone = new Set()
  limits = new StartLimits(clock, (id) => !gone.has(id) && released.push(id) > 0)
})
afterEach(() => {
  vi.useRealTimers()
})

const limit = (starts: number, windowMs = 1_000, key = 'k'): JobRateLimit => ({
  key,
  starts,
  windowMs,
})
const started = (given: JobRateLimit, ...ids: string[]) =>
  ids.filter((id) => limits.start(given, { id, priority: 0, order: id.charCodeAt(0) }))

describe('jobs with a limit', () => {
  it('start at most as often as the limit allows within any window', () => {
    expect(started(limit(2), 'a', 'b', 'c')).toEqual(['a', 'b'])
    vi.advanceTimersByTime(999)
    expect(started(limit(2), 'd')).toEqual([])
    vi.advanceTimersByTime(1)
    expect(started(limit(2), 'd', 'e', 'f')).toEqual(['d', 'e'])
  })

  it('start in a sliding window: a later start leaves the window later', () => {
    started(limit(2), 'a')
    vi.advanceTimersByTime(600)
    started(limit(2), 'b')
    vi.advanceTimersByTime(400)
    expect(started(limit(2), 'c', 'd')).toEqual(['c'])
    vi.advanceTimersByTime(600)
    expect(started(limit(2), 'd')).toEqual(['d'])
  })

  it('that are in RabbitMQ again wait no longer, and are not released', () => {
    started(limit(1), 'a', 'b', 'c')
    expect(limits.forget(limit(1), 'b')).toBe(START + 1_000)
    expect(limits.forget(limit(1, 1_000, 'unknown'), 'c')).toBe(START)
    expect(limits.standing('k')).toMatchObject({ waiting: 1 })
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['c'])
  })

  it('are told by key: the limit of the last, its starts, and who waits', () => {
    expect(limits.standing('k')).toBe(null)
    expect(limits.keys()).toEqual([])
    started(limit(1, 5_000), 'a')
    vi.advanceTimersByTime(3_000)
    started(limit(2), 'b', 'c', 'd')
    expect(limits.keys()).toEqual(['k'])
    expect(limits.standing('k')).toEqual({
      ...{ limit: limit(2), count: 2, resetsAt: START + 4_000, waiting: 1 },
    })
    vi.advanceTimersByTime(1_000)
    expect(limits.standing('k')).toMatchObject({ count: 0, resetsAt: null })
    vi.advanceTimersByTime(60_000)
    expect(limits.keys()).toEqual([])
  })

  it('follow their own limit when others with the same key have another', () => {
    const [slow, quick] = [limit(1, 10_000), limit(5)]
    expect(started(slow, 'a')).toEqual(['a'])
    expect(started(quick, 'b')).toEqual(['b'])
    vi.advanceTimersByTime(2_000)
    expect(started(slow, 'c')).toEqual([])
    expect(started(quick, 'd', 'e', 'f', 'g', 'h', 'i')).toEqual(['d', 'e', 'f', 'g', 'h'])
    vi.advanceTimersByTime(10_000)
    expect(released).toContain('c')
    expect(started(slow, 'c', 'j')).toEqual(['c'])
    vi.advanceTimersByTime(60_000)
    expect(limits.size).toBe(0)
  })

  it('are released by their own limit, although another one has a longer window', () => {
    const [slow, quick] = [limit(9, 10_000), limit(1)]
    expect([started(slow, 'a'), started(quick, 'b')]).toEqual([['a'], []])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b'])
  })

  it('are released one by one when nobody takes them, although another limit has a longer window', () => {
    const [slow, quick] = [limit(9, 10_000), limit(1)]
    expect([started(slow, 'a'), started(quick, 'b', 'c')]).toEqual([['a'], []])
    vi.advanceTimersByTime(1_999)
    expect(released).toEqual(['b'])
    vi.advanceTimersByTime(1)
    expect(released).toEqual(['b', 'c'])
  })

  it('follow their limit although more jobs started in the window than it allows', () => {
    const [slow, quick] = [limit(2, 10_000), limit(2)]
    expect(started(slow, 'a', 'b')).toEqual(['a', 'b'])
    vi.advanceTimersByTime(1_000)
    expect(started(quick, 'c', 'd')).toEqual(['c', 'd'])
    // Four starts are twice what either limit needs: only the older half may be forgotten.
    expect(started(slow, 'e')).toEqual([])
    expect(started(quick, 'f')).toEqual([])
  })

  it('are released in order, as many at a time as may start', () => {
    started(limit(2), 'a', 'b', 'c', 'd', 'e')
    vi.advanceTimersByTime(999)
    expect(released).toEqual([])
    vi.advanceTimersByTime(1)
    expect(released).toEqual(['c', 'd'])
    started(limit(2), 'c', 'd')
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['c', 'd', 'e'])
  })

  it('are skipped when their delivery is gone', () => {
    started(limit(1), 'a', 'b', 'c', 'd', 'e')
    gone = new Set(['b', 'c'])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['d'])
    expect(started(limit(1), 'd')).toEqual(['d'])
    gone.add('e')
    limits.takeBack(limit(1))
    expect(released).toEqual(['d'])
  })

  it('are released although nobody takes those released before them', () => {
    started(limit(1), 'a', 'b', 'c', 'd')
    vi.advanceTimersByTime(3_000)
    expect(released).toEqual(['b', 'c', 'd'])
  })

  it('keep their place when they ask again', () => {
    started(limit(1), 'a', 'b', 'c', 'b')
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b'])
  })

  it('are released by priority, even before others that have waited longer', () => {
    started(limit(1), 'a', 'b', 'c')
    limits.start(limit(1), { id: 'urgent', priority: 9, order: 100 })
    limits.start(limit(1), { id: 'low', priority: -100, order: 1 })
    vi.advanceTimersByTime(4_000)
    expect(released).toEqual(['urgent', 'b', 'c', 'low'])
  })

  it('keep their place when another job took their start', () => {
    started(limit(1), 'a', 'b', 'c')
    vi.advanceTimersByTime(1_000)
    limits.start(limit(1), { id: 'urgent', priority: 9, order: 100 })
    started(limit(1), 'b')
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b', 'b'])
  })

  it('pass a start that is taken back to the waiting job of the highest priority', () => {
    started(limit(1), 'a', 'b')
    limits.start(limit(1), { id: 'urgent', priority: 9, order: 100 })
    limits.takeBack(limit(1))
    expect(released).toEqual(['urgent'])
  })

  it('do not count a start that is taken back', () => {
    started(limit(1), 'a')
    limits.takeBack(limit(1))
    limits.takeBack(limit(1, 1_000, 'unknown'))
    expect(started(limit(1), 'b', 'c')).toEqual(['b'])
  })

  it('pass a start that is taken back to the next waiting job', () => {
    started(limit(1), 'a', 'b', 'c')
    limits.takeBack(limit(1))
    expect(released).toEqual(['b'])
    expect(started(limit(1), 'b')).toEqual(['b'])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b', 'c'])
  })

  it('lose their newest start when one is taken back, so that the older ones leave the window first', () => {
    started(limit(2), 'a')
    vi.advanceTimersByTime(500)
    started(limit(2), 'b')
    limits.takeBack(limit(2))
    vi.advanceTimersByTime(500)
    expect(started(limit(2), 'c', 'd', 'e')).toEqual(['c', 'd'])
  })

  it('are released one by one as the starts leave the window', () => {
    for (const id of ['a', 'b', 'c']) {
      started(limit(3), id)
      vi.advanceTimersByTime(300)
    }
    started(limit(3), 'd', 'e', 'f')
    vi.advanceTimersByTime(100)
    expect(released).toEqual(['d'])
    expect(started(limit(3), 'd')).toEqual(['d'])
    vi.advanceTimersByTime(300)
    expect(released).toEqual(['d', 'e'])
  })

  it('no longer wait once they are started', () => {
    started(limit(1), 'a', 'b')
    expect(started(limit(2), 'b', 'c')).toEqual(['b'])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['c'])
  })

  it('with different keys do not share a limit', () => {
    expect(started(limit(1), 'a', 'b')).toEqual(['a'])
    expect(started(limit(1, 1_000, 'other'), 'c')).toEqual(['c'])
  })

  it('follow the number of starts of the job that asks', () => {
    started(limit(5), 'a', 'b', 'c')
    expect(started(limit(1), 'd')).toEqual([])
    expect(started(limit(5), 'e', 'f', 'g')).toEqual(['e', 'f'])
  })

  it('follow the window of the job that asked last', () => {
    started(limit(1), 'a')
    vi.advanceTimersByTime(900)
    expect(started(limit(1, 5_000), 'b')).toEqual([])
    vi.advanceTimersByTime(4_099)
    expect([released, started(limit(1, 5_000), 'c')]).toEqual([[], []])
    vi.advanceTimersByTime(1)
    expect(released).toEqual(['b'])
  })
})

describe('the record of starts', () => {
  it('is deleted when its window is over', () => {
    started(limit(1), 'a')
    started(limit(1, 5_000, 'long'), 'b')
    expect(limits.size).toBe(2)
    vi.advanceTimersByTime(1_000)
    expect(limits.size).toBe(1)
    vi.advanceTimersByTime(4_000)
    expect(limits.size).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is deleted when the jobs that waited do not ask again', () => {
    started(limit(1), 'a', 'b')
    vi.advanceTimersByTime(10_000)
    expect([limits.size, vi.getTimerCount()]).toEqual([0, 0])
  })

  it('is limited to 10,000 keys: the least recently used is deleted and its jobs are released', () => {
    started(limit(1, 1_000, 'first'), 'a', 'waiting')
    for (let i = 0; i < 10_000; i++) started(limit(1, 1_000, `k${i}`), `j${i}`)
    expect(limits.size).toBe(10_000)
    expect(released).toEqual(['waiting'])
    // One timer per key: a leftover timer of the first key would delete its new record.
    expect(vi.getTimerCount()).toBe(10_000)
    expect(started(limit(1, 1_000, 'first'), 'b')).toEqual(['b'])
  })

  it('is kept for a key in use, although there are more than 10,000 keys', () => {
    started(limit(1, 1_000, 'busy'), 'a')
    for (let i = 0; i < 10_000; i++) {
      started(limit(1, 1_000, `k${i}`), `j${i}`)
      if (i % 5_000 === 0) expect(started(limit(1, 1_000, 'busy'), 'waiting')).toEqual([])
    }
    expect(started(limit(1, 1_000, 'busy'), 'b')).toEqual([])
    expect(released).toEqual([])
  })
})
