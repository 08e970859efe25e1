import { expect, it } from 'vitest'
import type { StateChange } from '../../../src/job/history/changes.ts'
import { historyRecords, retryRecords } from '../../../src/job/history/records.ts'
import type { JobRow } from '../../../src/job/job.ts'
import { errorEntry } from '../../../src/job/retry/error-history.ts'

const failed = (code: string, at: number) =>
  errorEntry(1, { code, type: code, message: `by ${code}`, retryable: false }, at)

it('each attempt has its own error, although attempts have the same numbers again after a retry by hand', () => {
  const errors = JSON.stringify([failed('smtp', 2_000), failed('dns', 5_000)])
  const job = { id: 'j', queue: 'q', type: 't', errors, error: null } as JobRow
  const none = { workerId: null, requestId: null, principal: null, reason: null }
  const changes = [
    { from: 'available', to: 'active', at: 1_000, attempt: 1 },
    { from: 'active', to: 'discarded', at: 2_000, attempt: 1 },
    { from: 'discarded', to: 'available', at: 3_000, attempt: 0 },
    { from: 'available', to: 'active', at: 4_000, attempt: 1 },
    { from: 'active', to: 'discarded', at: 5_000, attempt: 1 },
  ].map((change) => ({ ...none, ...change }) as StateChange)
  const told = historyRecords(job, changes).filter(
    ({ event_type }) => event_type === 'job.attempt_failed',
  )
  expect(told.map(({ data }) => data['error'])).toEqual(['by smtp', 'by dns'])
  expect(retryRecords(job, changes).map(({ error }) => error)).toEqual(['by smtp', 'by dns'])
})
