import { expect, it, onTestFinished } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import { jobMessage, NOW, TERMS } from '../harness.ts'
import { openSqliteHarness } from './harness.ts'

const YEAR_ONE = Date.parse('0001-01-01T00:00:00Z')
const NOTHING = {
  enqueued: 0,
  completed: 0,
  failed: 0,
  retried: 0,
  timed: 0,
  durationMs: 0,
  waited: 0,
  waitMs: 0,
}

async function harnessOfTest() {
  const harness = await openSqliteHarness()
  onTestFinished(() => harness.destroy())
  return harness
}

it('the waiting and running times of jobs with absurd dates are not counted', async () => {
  const harness = await harnessOfTest()
  const jobMessages = Array.from({ length: 150 }, (_, i) => {
    const createdAt = [YEAR_ONE, 0, NOW - 1_000][i % 3] ?? 0
    const job = newJob({ queue: 'q', createdAt })
    return jobMessage(job.id, { queue: 'q', adopt: () => job })
  })
  for (const { verdict } of await harness.ledger.claim(jobMessages, TERMS))
    expect(verdict).toBe('claimed')
  const ends = jobMessages.map(({ id }) =>
    harness.ledger.complete(
      id,
      {},
      { now: NOW + (id === jobMessages[0]?.id ? 1e13 : 5), result: null },
    ),
  )
  await Promise.all(ends)
  const hour = harness.ledger.known.traffic.lastHour('q', NOW)
  expect(hour).toMatchObject({ waited: 50, waitMs: 50_000, timed: 149, durationMs: 149 * 5 })
  const later = harness.ledger.known.traffic.lastHour('q', NOW + 1e13)
  expect(later).toEqual({ ...NOTHING, completed: 1 })
})
