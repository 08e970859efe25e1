import { describe, expect, it } from 'vitest'
import { ExpectedDeliveries } from '../../../src/broker/consume/expected-deliveries.ts'

const CONFIRMED_AT = 1_000

function withOne(priority = 5): ExpectedDeliveries {
  const underway = new ExpectedDeliveries()
  underway.sent('a', { priority, order: 7 }, CONFIRMED_AT - 10)
  underway.confirmed('a', CONFIRMED_AT)
  return underway
}

/** Goes before everything else of this priority. */
const at = (priority: number) => ({ priority, order: 0 })

describe('a published message that has not arrived', () => {
  it('goes before deliveries of a lower priority, and no others', () => {
    const underway = withOne()
    const isBetterThan = (priority: number) =>
      underway.hasBefore(at(priority), CONFIRMED_AT, CONFIRMED_AT)
    expect([4, 5, 6].map(isBetterThan)).toEqual([true, false, false])
    expect(isBetterThan(Number.NEGATIVE_INFINITY)).toBe(true)
  })

  it('goes before messages that were published after it', () => {
    const underway = withOne()
    const isBefore = (order: number) =>
      underway.hasBefore({ priority: 5, order }, CONFIRMED_AT, CONFIRMED_AT)
    expect([6, 7, 8].map(isBefore)).toEqual([false, false, true])
  })

  it('gets the place of its publish when it arrives, once', () => {
    const underway = withOne()
    expect(underway.arrived('a', 20)).toBe(7)
    expect(underway.arrived('a', 21)).toBe(21)
    expect(underway.size).toBe(0)
  })

  it('does not overtake an earlier one that came before it, but was no longer expected', () => {
    const underway = withOne()
    const late = CONFIRMED_AT + 60
    underway.sent('b', { priority: 5, order: 8 }, late)
    underway.confirmed('b', late)
    // Looks at the time, and expects `a` no longer.
    underway.hasBefore(at(5), late, late)
    const first = underway.arrived('a', 20)
    underway.sent('c', { priority: 5, order: 21 }, late)
    expect(underway.arrived('b', 22)).toBeGreaterThan(first)
    expect(underway.arrived('c', 23)).toBe(21)
  })

  it('is ignored by a fetch that came before its confirm', () => {
    const underway = withOne()
    expect(underway.hasBefore(at(0), CONFIRMED_AT - 1, CONFIRMED_AT)).toBe(false)
    underway.sent('b', at(9), CONFIRMED_AT)
    expect(underway.hasBefore(at(5), CONFIRMED_AT, CONFIRMED_AT)).toBe(false)
  })

  it('is no longer expected after forget(), even if it is confirmed then', () => {
    const underway = withOne()
    underway.forget('a')
    expect(underway.hasBefore(at(0), CONFIRMED_AT, CONFIRMED_AT)).toBe(false)
    underway.confirmed('a', CONFIRMED_AT)
    expect(underway.hasBefore(at(0), CONFIRMED_AT, CONFIRMED_AT)).toBe(false)
  })

  it('delays fetches for at most 25 ms in a second when other consumers take the messages', () => {
    const underway = withOne()
    expect(underway.hasBefore(at(0), CONFIRMED_AT, CONFIRMED_AT + 24)).toBe(true)
    expect(underway.hasBefore(at(0), CONFIRMED_AT, CONFIRMED_AT + 25)).toBe(false)
    for (const [now, expected] of [
      [CONFIRMED_AT + 1_024, false],
      [CONFIRMED_AT + 1_025, true],
    ] as const) {
      underway.sent('b', at(5), now)
      underway.confirmed('b', now)
      expect(underway.hasBefore(at(0), now, now)).toBe(expected)
      underway.forget('b')
    }
  })

  it('is remembered with 255 others at most, and not for good', () => {
    const underway = new ExpectedDeliveries()
    for (let i = 0; i < 300; i++) underway.sent(String(i), at(i), 0)
    expect(underway.size).toBe(256)
    for (let i = 0; i < 300; i++) underway.confirmed(String(i), 0)
    underway.sent('late', at(1), 25)
    expect(underway.size).toBe(1)
  })
})
