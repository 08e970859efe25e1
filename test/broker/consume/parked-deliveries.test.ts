import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import { ParkedDeliveries } from '../../../src/broker/consume/parked-deliveries.ts'

const NOW = 1_700_000_000_000
const LONG_MS = 2 ** 31 - 1

let now: number
let released: LiveDelivery[]
let parking: ParkedDeliveries
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  now = NOW
  released = []
  parking = new ParkedDeliveries({ now: () => now, wall: () => 0 }, (delivery) =>
    released.push(delivery),
  )
})
afterEach(() => void vi.useRealTimers())

const delivery = (id: string) => ({ id, place: 'out' }) as LiveDelivery

it('parking holds a delivery until its time, and gives it back once', () => {
  const one = delivery('a')
  parking.park(one, NOW + 50)
  expect(one.place).toBe('parked')
  vi.advanceTimersByTime(49)
  expect(released).toEqual([])
  vi.advanceTimersByTime(1)
  parking.unpark('a')
  expect(released).toEqual([one])
})

it('parking gives back all deliveries of a job that has moved, and those of no other', () => {
  const [one, two, other] = [delivery('a'), delivery('a'), delivery('b')]
  parking.park(one, NOW + 50)
  parking.park(two, null)
  parking.park(other, null)
  parking.unpark('a')
  expect(released).toEqual([one, two])
  vi.advanceTimersByTime(1_000)
  parking.unpark('a')
  expect(released).toEqual([one, two])
  parking.unparkAll()
  expect(released).toEqual([one, two, other])
})

it('parking does not give back a delivery that was settled or lost meanwhile', () => {
  const [one, two] = [delivery('a'), delivery('a')]
  parking.park(one, NOW + 50)
  parking.park(two, null)
  parking.forget(one)
  expect(vi.getTimerCount()).toBe(0)
  parking.unpark('a')
  parking.forget(two)
  expect(released).toEqual([two])
})

it('parking gives back a delivery after the longest time of a timer if its own time is later', () => {
  const one = delivery('a')
  parking.park(one, NOW + 3 * LONG_MS)
  vi.advanceTimersByTime(LONG_MS - 1)
  expect(released).toEqual([])
  vi.advanceTimersByTime(1)
  expect(released).toEqual([one])
})

it('parking gives back at once a delivery that is due already', () => {
  parking.park(delivery('a'), NOW - 5)
  vi.advanceTimersByTime(0)
  expect(released).toHaveLength(1)
})
