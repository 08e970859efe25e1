import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { LineBudget } from '../../src/telemetry/line-budget.ts'

let now: number
let notices: number[]
let budget: LineBudget

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  now = 5_000
  notices = []
  budget = new LineBudget((suppressed) => notices.push(suppressed))
})

function pass(ms: number): void {
  now += ms
  vi.advanceTimersByTime(ms)
}
const flood = (lines: number) =>
  Array.from({ length: lines }, () => budget.take(now)).filter((fields) => fields !== undefined)

it('LineBudget reports the suppressed lines once after 10 s if no further line comes', () => {
  flood(10)
  pass(4_000)
  flood(30)
  pass(5_999)
  expect(notices).toEqual([])
  pass(1)
  expect(notices).toEqual([30])
  // The same lines are not reported twice.
  pass(1)
  expect(budget.take(now)).toEqual({})
  pass(60_000)
  expect(notices).toEqual([30])
})

it('LineBudget accounts for each line of a flood once, as shown or as suppressed', () => {
  let shown = 0
  let told = 0
  for (let i = 0; i < 50; i++) {
    const lines = flood(100)
    shown += lines.length
    for (const { suppressed = 0 } of lines) told += suppressed
    pass(1_000)
  }
  pass(10_000)
  expect(shown + told + notices.reduce((sum, count) => sum + count, 0)).toBe(5_000)
  expect(shown).toBeLessThanOrEqual(50)
  expect(notices.length).toBeLessThanOrEqual(5)
})

it('LineBudget reports nothing if all lines were shown', () => {
  flood(10)
  pass(60_000)
  expect(notices).toEqual([])
})

it('LineBudget reports nothing after a line that has named the suppressed ones', () => {
  flood(15)
  now += 10_000
  expect(budget.take(now)).toEqual({ suppressed: 5 })
  vi.advanceTimersByTime(10_000)
  expect(notices).toEqual([])
})

it('LineBudget uses one timer for any number of suppressed lines', () => {
  flood(100)
  expect(vi.getTimerCount()).toBe(1)
})

it('LineBudget does not keep the process alive by its timer', () => {
  vi.useRealTimers()
  const timers = () => process.getActiveResourcesInfo().filter((what) => what === 'Timeout').length
  const before = timers()
  flood(11)
  expect(timers()).toBe(before)
})
