import { afterEach, expect, it, vi } from 'vitest'
import { uuid7 } from '../src/uuid.ts'

const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

afterEach(() => vi.useRealTimers())

function many(count: number): string[] {
  return Array.from({ length: count }, uuid7)
}

/** Each is greater than the one before, so none is repeated. */
function isRising(ids: readonly string[]): boolean {
  return ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? ''))
}

function msOf(id: string): number {
  return Number.parseInt(id.replace('-', '').slice(0, 12), 16)
}

it('uuid7 makes ids of version 7 that carry the time', () => {
  const before = Date.now()
  const ids = many(100)
  for (const id of ids) {
    expect(id).toMatch(FORM)
    expect(msOf(id)).toBeGreaterThanOrEqual(before)
    expect(msOf(id)).toBeLessThanOrEqual(Date.now())
  }
})

it('uuid7 makes increasing ids, also within a millisecond', () => {
  expect(isRising(many(20_000))).toBe(true)
})

it('uuid7 makes increasing ids when the clock goes back', () => {
  vi.useFakeTimers({ now: Date.now() + 3_600_000 })
  const before = many(3)
  vi.setSystemTime(Date.now() - 1_800_000)
  expect(isRising([...before, ...many(3)])).toBe(true)
})
