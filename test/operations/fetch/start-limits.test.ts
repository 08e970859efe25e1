import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { JobRateLimit } from '../../../src/job/rate-limit.ts'
import { StartLimits } from '../../../src/operations/fetch/start-limits.ts'

const START = 1_000_000

let released: string[] = []
/** Whose message went with its channel. */
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
  it('are started as often as it says within any window', () => {
    expect(started(limit(2), 'a', 'b', 'c')).toEqual(['a', 'b'])
    vi.advanceTimersByTime(999)
    expect(started(limit(2), 'd')).toEqual([])
    vi.advanceTimersByTime(1)
    expect(started(limit(2), 'd', 'e', 'f')).toEqual(['d', 'e'])
  })

  it('slide: what was started later leaves later', () => {
    started(limit(2), 'a')
    vi.advanceTimersByTime(600)
    started(limit(2), 'b')
    vi.advanceTimersByTime(400)
    expect(started(limit(2), 'c', 'd')).toEqual(['c'])
    vi.advanceTimersByTime(600)
    expect(started(limit(2), 'd')).toEqual(['d'])
  })

  it('are held to their own limit where others of their type have another', () => {
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

  it('are released when their own limit lets them, whichever has the longer window', () => {
    const [slow, quick] = [limit(9, 10_000), limit(1)]
    expect([started(slow, 'a'), started(quick, 'b')]).toEqual([['a'], []])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b'])
  })

  it('are released one by one where nobody takes them, whatever window others have', () => {
    const [slow, quick] = [limit(9, 10_000), limit(1)]
    expect([started(slow, 'a'), started(quick, 'b', 'c')]).toEqual([['a'], []])
    vi.advanceTimersByTime(1_999)
    expect(released).toEqual(['b'])
    vi.advanceTimersByTime(1)
    expect(released).toEqual(['b', 'c'])
  })

  it('are held to their limit however many have started in its window', () => {
    const [slow, quick] = [limit(2, 10_000), limit(2)]
    expect(started(slow, 'a', 'b')).toEqual(['a', 'b'])
    vi.advanceTimersByTime(1_000)
    expect(started(quick, 'c', 'd')).toEqual(['c', 'd'])
    // Twice as many as either asks for: the older half is forgotten, and no more.
    expect(started(slow, 'e')).toEqual([])
    expect(started(quick, 'f')).toEqual([])
  })

  it('are released in their order, as many as may start', () => {
    started(limit(2), 'a', 'b', 'c', 'd', 'e')
    vi.advanceTimersByTime(999)
    expect(released).toEqual([])
    vi.advanceTimersByTime(1)
    expect(released).toEqual(['c', 'd'])
    started(limit(2), 'c', 'd')
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['c', 'd', 'e'])
  })

  it('that are gone take no turn', () => {
    started(limit(1), 'a', 'b', 'c', 'd', 'e')
    gone = new Set(['b', 'c'])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['d'])
    expect(started(limit(1), 'd')).toEqual(['d'])
    gone.add('e')
    limits.takeBack(limit(1))
    expect(released).toEqual(['d'])
  })

  it('are released even where nobody takes those before them', () => {
    started(limit(1), 'a', 'b', 'c', 'd')
    vi.advanceTimersByTime(3_000)
    expect(released).toEqual(['b', 'c', 'd'])
  })

  it('keep their place when they are looked at again', () => {
    started(limit(1), 'a', 'b', 'c', 'b')
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b'])
  })

  it('of a higher priority go first, however long others have waited', () => {
    started(limit(1), 'a', 'b', 'c')
    limits.start(limit(1), { id: 'urgent', priority: 9, order: 100 })
    limits.start(limit(1), { id: 'low', priority: -100, order: 1 })
    vi.advanceTimersByTime(4_000)
    expect(released).toEqual(['urgent', 'b', 'c', 'low'])
  })

  it('keep their place when another one was faster', () => {
    started(limit(1), 'a', 'b', 'c')
    vi.advanceTimersByTime(1_000)
    limits.start(limit(1), { id: 'urgent', priority: 9, order: 100 })
    started(limit(1), 'b')
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b', 'b'])
  })

  it('leave their turn to the first of those that wait', () => {
    started(limit(1), 'a', 'b')
    limits.start(limit(1), { id: 'urgent', priority: 9, order: 100 })
    limits.takeBack(limit(1))
    expect(released).toEqual(['urgent'])
  })

  it('do not count when they are taken back', () => {
    started(limit(1), 'a')
    limits.takeBack(limit(1))
    limits.takeBack(limit(1, 1_000, 'unknown'))
    expect(started(limit(1), 'b', 'c')).toEqual(['b'])
  })

  it('leave their turn to the next one when they are taken back', () => {
    started(limit(1), 'a', 'b', 'c')
    limits.takeBack(limit(1))
    expect(released).toEqual(['b'])
    expect(started(limit(1), 'b')).toEqual(['b'])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['b', 'c'])
  })

  it('give back the newest start when they are taken back: the older ones leave first', () => {
    started(limit(2), 'a')
    vi.advanceTimersByTime(500)
    started(limit(2), 'b')
    limits.takeBack(limit(2))
    vi.advanceTimersByTime(500)
    expect(started(limit(2), 'c', 'd', 'e')).toEqual(['c', 'd'])
  })

  it('are released one by one, as the starts leave the window', () => {
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

  it('do not wait any more once they are started', () => {
    started(limit(1), 'a', 'b')
    expect(started(limit(2), 'b', 'c')).toEqual(['b'])
    vi.advanceTimersByTime(1_000)
    expect(released).toEqual(['c'])
  })

  it('of another key are another matter', () => {
    expect(started(limit(1), 'a', 'b')).toEqual(['a'])
    expect(started(limit(1, 1_000, 'other'), 'c')).toEqual(['c'])
  })

  it('go by the limit of the one that asks', () => {
    started(limit(5), 'a', 'b', 'c')
    expect(started(limit(1), 'd')).toEqual([])
    expect(started(limit(5), 'e', 'f', 'g')).toEqual(['e', 'f'])
  })

  it('go by the window of the one that asked last', () => {
    started(limit(1), 'a')
    vi.advanceTimersByTime(900)
    expect(started(limit(1, 5_000), 'b')).toEqual([])
    vi.advanceTimersByTime(4_099)
    expect([released, started(limit(1, 5_000), 'c')]).toEqual([[], []])
    vi.advanceTimersByTime(1)
    expect(released).toEqual(['b'])
  })
})

describe('what is remembered', () => {
  it('is gone when its window is over', () => {
    started(limit(1), 'a')
    started(limit(1, 5_000, 'long'), 'b')
    expect(limits.size).toBe(2)
    vi.advanceTimersByTime(1_000)
    expect(limits.size).toBe(1)
    vi.advanceTimersByTime(4_000)
    expect(limits.size).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is gone too when those that waited have not come back', () => {
    started(limit(1), 'a', 'b')
    vi.advanceTimersByTime(10_000)
    expect([limits.size, vi.getTimerCount()]).toEqual([0, 0])
  })

  it('is bounded: the key that is unused for longest is forgotten, and its jobs are released', () => {
    started(limit(1, 1_000, 'first'), 'a', 'waiting')
    for (let i = 0; i < 10_000; i++) started(limit(1, 1_000, `k${i}`), `j${i}`)
    expect(limits.size).toBe(10_000)
    expect(released).toEqual(['waiting'])
    // One for each key: that of the first must not go off and end what is remembered of it anew.
    expect(vi.getTimerCount()).toBe(10_000)
    expect(started(limit(1, 1_000, 'first'), 'b')).toEqual(['b'])
  })

  it('is not forgotten as long as it is used, however many keys there are', () => {
    started(limit(1, 1_000, 'busy'), 'a')
    for (let i = 0; i < 10_000; i++) {
      started(limit(1, 1_000, `k${i}`), `j${i}`)
      if (i % 5_000 === 0) expect(started(limit(1, 1_000, 'busy'), 'waiting')).toEqual([])
    }
    expect(started(limit(1, 1_000, 'busy'), 'b')).toEqual([])
    expect(released).toEqual([])
  })
})
