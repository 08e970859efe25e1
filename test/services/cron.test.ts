import { expect, it, vi } from 'vitest'
import type { CronDefinition } from '../../src/job/cron/entry.ts'
import { fireDue } from '../../src/operations/cron/ticks.ts'
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

it('the cron service skips no time for a job that may have ended unheard, and makes the other jobs at their time', async () => {
  let isHeard = false
  const { deps } = onToldBroker(harness, { controlBacklogConsumed: () => isHeard })
  const { ledger, db } = harness
  const register = (name: string, overlap: CronDefinition['overlap'], unique = {}) => {
    const template = { type: name, args: [], options: { queue: 'q', ...unique } }
    const rest = { expression: '0 0 1 1 *', timezone: 'UTC', isEnabled: true, description: null }
    const terms = { nextRunAt: NOW - 1, createdAt: NOW, limit: 2_000 }
    return ledger.cron.register({ name, overlap, template, ...rest }, terms)
  }
  await register('free', 'skip')
  await register('allowing', 'allow')
  await register('queueing', 'enqueue')
  await register('skipping', 'skip')
  await register('cancelling', 'cancel_previous')
  await register('alike', 'allow', { unique: { key: [] } })
  expect(await fireDue(deps, [])).toBe(6)
  db.exec(`UPDATE jobs SET state = 'completed', ended_at = ${NOW} WHERE type = 'free'`)
  db.exec(`UPDATE cron_jobs SET next_run_at = ${NOW - 1}`)
  const due = async () => {
    const entries = await ledger.read.cron.due(NOW, 10)
    return new Set(entries.map(({ name }) => name))
  }
  const service = cron(deps)
  await service.start()
  try {
    const held = new Set(['alike', 'cancelling', 'skipping'])
    await expect.poll(due, { timeout: 15_000 }).toEqual(held)
    const fire = vi.spyOn(ledger.cron, 'fire')
    await vi.waitUntil(() => fire.mock.calls.length > 3, { interval: 5, timeout: 15_000 })
    expect(await due()).toEqual(held)
    isHeard = true
    await expect.poll(due, { timeout: 15_000 }).toEqual(new Set())
  } finally {
    await service.stop(AbortSignal.timeout(1_000))
  }
})
