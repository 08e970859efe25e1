import { expect, it } from 'vitest'
import { LedgerClock } from '../../../src/ledger/postgres/clock.ts'

/** The database's clock is 1 hour ahead of ours, which counts from 0. */
const AHEAD = 3_600_000

let monotonic = 0

function clockOf(): LedgerClock {
  monotonic = 0
  return new LedgerClock(
    () => monotonic,
    () => 0,
  )
}

/** One answer of the database, after `there` and `back` ms on the way. */
function ask(clock: LedgerClock, ahead: number, there: number, back: number): void {
  const sentAt = monotonic
  monotonic += there
  const serverMs = monotonic + ahead
  monotonic += back
  clock.sample(serverMs, sentAt)
}

it('the time is that of the database, by the fastest of the last answers', () => {
  const clock = clockOf()
  ask(clock, AHEAD, 400, 0)
  ask(clock, AHEAD, 1, 1)
  ask(clock, AHEAD, 0, 300)
  clock.settle()
  expect(clock.now() - monotonic).toBe(AHEAD)
  expect(clock.wall() - monotonic).toBe(AHEAD)
  expect(clock.aheadMs(() => monotonic)).toBe(-AHEAD)
})

it('durations follow the database by a millisecond a second, and never jump', () => {
  const clock = clockOf()
  ask(clock, AHEAD, 5, 5)
  clock.settle()
  for (const [apart, ahead] of [
    [1, AHEAD + 500],
    [-1, AHEAD - 500],
  ] as const) {
    const offset = clock.now() - monotonic
    // Faster than those before: it counts.
    ask(clock, ahead, 0, 0)
    const begin = clock.now()
    monotonic += 10_000
    expect(clock.now() - begin).toBe(10_000 + 10 * apart)
    expect(Math.abs(clock.now() - monotonic - offset)).toBe(10)
    clock.settle()
  }
  const end = clock.now()
  ask(clock, AHEAD + 86_400_000, 0, 0)
  // The database's clock was set: people's times are set, durations go on.
  expect(clock.now()).toBe(end)
  expect(clock.wall()).toBe(monotonic + AHEAD + 86_400_000)
  monotonic += 1_000
  expect(clock.now()).toBe(end + 1_001)
})

it('forgets answers of before the clock was set, however fast they were', () => {
  const clock = clockOf()
  ask(clock, 0, 0, 0)
  ask(clock, 2_500, 200, 200)
  expect(clock.wall()).toBe(monotonic + 2_500)
})

it('forgets fast answers after a while, because clocks drift', () => {
  const clock = clockOf()
  ask(clock, 0, 0, 0)
  for (let i = 0; i < 32; i++) ask(clock, 100, 20, 20)
  clock.settle()
  expect(clock.now()).toBe(monotonic + 100)
})
