import { v7 } from 'uuid'
import type { NewJob } from '../../../src/job/job.ts'

/** A validated job as `job/envelope.ts` would make it; `given` replaces whole members. */
export function newJob(given: Partial<NewJob> = {}): NewJob {
  const id = given.id ?? v7()
  const type = given.type ?? 'email.send'
  const queue = given.queue ?? 'default'
  return {
    id,
    type,
    queue,
    priority: 0,
    maxAttempts: 3,
    visibilityTimeoutMs: null,
    timeoutMs: 30_000,
    expiresAt: null,
    createdAt: 1_700_000_000_000,
    envelope: JSON.stringify({ specversion: '1.0', id, type, queue, args: ['a', 1] }),
    carry: null,
    start: { state: 'available' },
    unique: null,
    ...given,
  }
}
