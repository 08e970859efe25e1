import { expect, it } from 'vitest'
import { reportsOut } from '../../src/services/reports-out.ts'

function stage() {
  const seen = { now: 0, isHeard: false, state: 'up' }
  const broker = {
    controlBacklogConsumed: () => seen.isHeard,
    status: () => ({ state: seen.state }),
  }
  const clock = { now: () => seen.now, wall: () => seen.now }
  return { seen, areOut: reportsOut({ broker, clock } as never, 60_000) }
}

it('waits until the reports are heard, and anew when RabbitMQ was away', () => {
  const { seen, areOut } = stage()
  expect(areOut()).toBe(true)
  seen.now = 59_999
  expect(areOut()).toBe(true)
  seen.isHeard = true
  expect(areOut()).toBe(false)
  seen.isHeard = false
  expect(areOut()).toBe(true)
  seen.now += 60_000
  expect(areOut()).toBe(false)
})

it('waits for a RabbitMQ that is away 10 s only', () => {
  const { seen, areOut } = stage()
  seen.state = 'down'
  expect(areOut()).toBe(true)
  seen.now = 10_000
  expect(areOut()).toBe(false)
  seen.state = 'up'
  expect(areOut()).toBe(true)
})
