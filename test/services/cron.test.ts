import { expect, it, vi } from 'vitest'
import type { Deps } from '../../src/operations/deps.ts'
import { cron } from '../../src/services/cron.ts'
import { NOW } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker } from '../operations/job-messages/told-broker.ts'

const harness = ledgerOfTest()

it('the cron service looks for runs far ahead only at start and after the clock was set back', async () => {
  let wall = NOW
  const { deps } = onToldBroker(harness, {})
  const service = cron({ ...deps, clock: { now: () => NOW, wall: () => wall } } as Deps)
  const ahead = vi.spyOn(harness.ledger.read.cron, 'ahead')
  const due = vi.spyOn(harness.ledger.read.cron, 'due')
  /** Waits for one more pass, and returns how often runs far ahead were looked for. */
  const pass = async () => {
    const before = due.mock.calls.length
    await vi.waitUntil(() => due.mock.calls.length > before, { interval: 5, timeout: 15_000 })
    return ahead.mock.calls.length
  }
  await service.start()
  try {
    expect(await pass()).toBe(1)
    expect(await pass()).toBe(1)
    wall += 1
    expect(await pass()).toBe(1)
    wall -= 1
    expect(await pass()).toBe(2)
    expect(await pass()).toBe(2)
  } finally {
    await service.stop(AbortSignal.timeout(1_000))
  }
})

it('the cron service fires nothing as long as the job before may have ended unheard', async () => {
  let isHeard = false
  let looks = 0
  const controlBacklogConsumed = () => {
    looks += 1
    return isHeard
  }
  const { deps } = onToldBroker(harness, { controlBacklogConsumed })
  const due = vi.spyOn(harness.ledger.read.cron, 'due')
  const service = cron(deps)
  await service.start()
  try {
    await vi.waitUntil(() => looks > 2, { interval: 5, timeout: 15_000 })
    expect(due).not.toHaveBeenCalled()
    isHeard = true
    await vi.waitUntil(() => due.mock.calls.length > 0, { interval: 5, timeout: 15_000 })
  } finally {
    await service.stop(AbortSignal.timeout(1_000))
  }
})
