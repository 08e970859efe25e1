import { afterEach, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { reaper } from '../../src/services/reaper.ts'
import { SILENT } from '../ledger/sqlite-harness.ts'

afterEach(() => vi.restoreAllMocks())

it('gives leases their time again before it ends any, when the process has stood still', async () => {
  const done: string[] = []
  const record =
    <T>(what: string, value: T) =>
    () => {
      if (done.at(-1) !== what) done.push(what)
      return value
    }
  const ledger = { overdue: record('looked', []), extendLeases: record('extended', 0) }
  const broker = { controlBacklogConsumed: () => true }
  const deps = { ledger, broker, clock: systemClock(), logger: SILENT } as unknown as Deps
  const service = reaper(deps)
  await service.start()
  await vi.waitUntil(() => done.length === 1)
  const { now } = performance
  let stoodMs = 4_000
  vi.spyOn(performance, 'now').mockImplementation(() => now.call(performance) + stoodMs)
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(done).toEqual(['looked'])
  stoodMs += 6_000
  await vi.waitUntil(() => done.length >= 3)
  await service.stop(AbortSignal.timeout(1_000))
  expect(done).toEqual(['looked', 'extended', 'looked'])
})
