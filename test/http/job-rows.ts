import type { CronEntry } from '../../src/job/cron-entry.ts'
import type { JobRow } from '../../src/job/job.ts'

/** A row as the ledger would return it, for tests of what HTTP makes of it. */
export function jobRow(change: Partial<JobRow> = {}): JobRow {
  const id = change.id ?? '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'
  return {
    id,
    type: 'email.send',
    queue: 'email',
    priority: 0,
    maxAttempts: 3,
    visibilityTimeoutMs: null,
    timeoutMs: 30_000,
    expiresAt: null,
    createdAt: 1_000,
    envelope: `{"specversion":"1.0","id":"${id}","type":"email.send","queue":"email","args":["\u00fc"]}`,
    carry: null,
    generation: 0,
    state: 'available',
    attempt: 0,
    outbox: null,
    tokenOut: true,
    holder: null,
    workerId: null,
    leaseMs: null,
    leaseExpiresAt: null,
    timeoutAt: null,
    dueAt: null,
    rungMs: null,
    retryDelayMs: null,
    activatedAt: null,
    isDeadLetter: false,
    enqueuedAt: 2_000,
    startedAt: null,
    completedAt: null,
    cancelledAt: null,
    discardedAt: null,
    result: null,
    error: null,
    errors: null,
    deadLetterCopied: false,
    ...change,
  }
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
