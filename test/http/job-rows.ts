import type { CronEntry } from '../../src/job/cron/entry.ts'
import { freshRow, type JobRow } from '../../src/job/job.ts'
import { newJob } from '../support/gateway/jobs.ts'

/** A row as the ledger would return it, for tests of what HTTP makes of it. */
export function jobRow(change: Partial<JobRow> = {}): JobRow {
  const id = change.id ?? '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'
  const envelope = `{"specversion":"1.0","id":"${id}","type":"email.send","queue":"email","args":["\u00fc"]}`
  const job = newJob({ id, queue: 'email', createdAt: 1_000, envelope })
  const stored = { generation: 0, outbox: null, enqueuedAt: 2_000 }
  // The publish of its message was confirmed.
  return { ...freshRow(job, stored), messageOut: true, ...change }
}

/** A cron entry as the ledger would return it. */
export function cronEntry(change: Partial<CronEntry> = {}): CronEntry {
  return {
    name: 'nightly',
    expression: '0 0 * * *',
    timezone: 'UTC',
    overlap: 'skip',
    isEnabled: true,
    description: null,
    template: { type: 'report.make', args: [] },
    seq: 1,
    nextRunAt: 3_000,
    lastRunAt: null,
    lastJobId: null,
    runCount: 0,
    queued: [],
    createdAt: 1_000,
    ...change,
  }
}
