import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { LineBudget } from '../../src/telemetry/line-budget.ts'

let now: number
let rests: number[]
let budget: LineBudget

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  now = 5_000
  rests = []
  budget = new LineBudget((suppressed) => rests.push(suppressed))
})

function pass(ms: number): void {
  now += ms
  vi.advanceTimersByTime(ms)
}
const flood = (lines: number) =>
  Array.from({ length: lines }, () => budget.take(now)).filter((fields) => fields !== undefined)

it('says at the end of its time how many were not shown, where no other line does', () => {
  flood(10)
  pass(4_000)
  flood(30)
  pass(5_999)
  expect(rests).toEqual([])
  pass(1)
  expect(rests).toEqual([30])
  // And not once more.
  pass(1)
  expect(budget.take(now)).toEqual({})
  pass(60_000)
  expect(rests).toEqual([30])
})

it('says it of each ten seconds of a flood, and of no line twice', () => {
  let shown = 0
  let told = 0
  for (let i = 0; i < 50; i++) {
    const lines = flood(100)
    shown += lines.length
    for (const { suppressed = 0 } of lines) told += suppressed
    pass(1_000)
  }
  pass(10_000)
  expect(shown + told + rests.reduce((sum, one) => sum + one, 0)).toBe(5_000)
  expect(shown).toBeLessThanOrEqual(50)
  expect(rests.length).toBeLessThanOrEqual(5)
})

it('says nothing where all were shown', () => {
  flood(10)
  pass(60_000)
  expect(rests).toEqual([])
})

it('says nothing behind a line that has said it', () => {
  flood(15)
  now += 10_000
  expect(budget.take(now)).toEqual({ suppressed: 5 })
  vi.advanceTimersByTime(10_000)
  expect(rests).toEqual([])
})

it('waits with one timer, however many were not shown', () => {
  flood(100)
  expect(vi.getTimerCount()).toBe(1)
})

it('keeps no process that is done from its end', () => {
  vi.useRealTimers()
  const timers = () => process.getActiveResourcesInfo().filter((what) => what === 'Timeout').length
  const before = timers()
  flood(11)
  expect(timers()).toBe(before)
})
