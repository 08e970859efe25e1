import { describe, expect, it } from 'vitest'
import { SweepPace } from '../../src/services/dlx-sweep.ts'

const MINUTE_MS = 60_000

/** The minutes between a sweep and the next, for sweeps with these ends. */
function gaps(pace: SweepPace, ends: readonly { isInVain: boolean }[]): number[] {
  let now = 0
  return ends.map((end) => {
    pace.began('q', now)
    pace.ended('q', end)
    const from = now
    while (!pace.isDue('q', now)) now += MINUTE_MS
    return (now - from) / MINUTE_MS
  })
}

describe('SweepPace', () => {
  it('lets a queue be swept at once, then a minute later, independently of other queues', () => {
    const pace = new SweepPace()
    expect(pace.isDue('q', 5)).toBe(true)
    pace.began('q', 5)
    expect(pace.isDue('q', 5 + MINUTE_MS - 1)).toBe(false)
    expect(pace.isDue('q', 5 + MINUTE_MS)).toBe(true)
    expect(pace.isDue('other', 6)).toBe(true)
  })

  it('keeps a gap of one minute as long as sweeps remove something', () => {
    expect(gaps(new SweepPace(), Array(4).fill({ isInVain: false }))).toEqual([1, 1, 1, 1])
  })

  it('doubles the gap while sweeps are in vain, up to a day', () => {
    const vain = gaps(new SweepPace(), Array(13).fill({ isInVain: true }))
    expect(vain.slice(0, 4)).toEqual([2, 4, 8, 16])
    expect(vain.slice(-2)).toEqual([1_440, 1_440])
  })

  it('goes back to one minute after a sweep that removed something', () => {
    const ends = [true, true, false, true].map((isInVain) => ({ isInVain }))
    expect(gaps(new SweepPace(), ends)).toEqual([2, 4, 1, 2])
  })

  it('reports only the first of several sweeps in vain', () => {
    const pace = new SweepPace()
    const said = [true, true, false, true].map((isInVain) => {
      pace.began('q', 0)
      return pace.ended('q', { isInVain })
    })
    expect(said).toEqual([true, false, false, true])
  })
})
