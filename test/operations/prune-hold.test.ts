import { expect, it, vi } from 'vitest'
import { PruneHold } from '../../src/operations/prune-hold.ts'
import { SILENT } from '../support/time/silent.ts'

const NOW = Date.UTC(2027, 11, 1, 12)
const HOUR_MS = 3_600_000
const WEEK_MS = 7 * 24 * HOUR_MS

function holdAt(seenAt: number | null) {
  const clock = { now: () => time.now }
  const time = { now: NOW }
  const warn = vi.fn()
  return { hold: new PruneHold(clock, { ...SILENT, warn }, seenAt), time, warn }
}

it.each([null, NOW, NOW - WEEK_MS, NOW + 5 * WEEK_MS])(
  'nothing is held when the ledger was in use at %s',
  (seenAt) => {
    const { hold, warn } = holdAt(seenAt)
    expect([hold.isHeld, hold.warnings(), hold.release(), warn.mock.calls]).toEqual([
      ...[false, [], false, []],
    ])
  },
)

it('everything is held for an hour when the ledger was in use more than a week before', () => {
  const { hold, time, warn } = holdAt(NOW - WEEK_MS - 1)
  expect(hold.isHeld).toBe(true)
  const [warning] = hold.warnings()
  expect(warning).toEqual({
    code: 'clock_ahead',
    message: expect.stringMatching(/^The clock is 7 days ahead .*2027-11-24T11:59:59.999Z/),
    details: { ledger_used_at: '2027-11-24T11:59:59.999Z', until: '2027-12-01T13:00:00.000Z' },
  })
  expect(warn.mock.calls).toEqual([[{ code: 'clock_ahead' }, warning?.message]])
  time.now += HOUR_MS - 1
  expect(hold.isHeld).toBe(true)
  time.now += 1
  expect([hold.isHeld, hold.warnings()]).toEqual([false, []])
})

it('an operator ends the hold', () => {
  const { hold } = holdAt(0)
  expect([hold.release(), hold.isHeld, hold.release()]).toEqual([true, false, false])
})
