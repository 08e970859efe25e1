/** What the calls of random histories store: drawn so that jobs of all origins meet under the same keys. */
import { toNewJob } from '../../../src/job/envelope.ts'
import type { JobState, NewJob } from '../../../src/job/job.ts'
import type { PushRequest } from '../../../src/job/request.ts'
import { NOW } from '../harness.ts'
import { type Call, KEY, QUEUE } from './call.ts'

const CONFLICTS = ['reject', 'ignore', 'replace', 'replace_except_schedule'] as const

/** A step of a workflow, or the template of a cron entry. */
export function stepOf(n: number): PushRequest {
  const options = {
    queue: QUEUE(n),
    max_attempts: 1 + (n % 2),
    ...(n % 3 === 0 && { unique: { keys: ['type'], on_conflict: CONFLICTS[(n >> 3) % 4] ?? '' } }),
    ...(n % 4 === 1 && { concurrency: { key: KEY(n >> 2), limit: 1 } }),
    ...(n % 7 === 2 && { delay_until: '+PT0.02S' }),
    ...(n % 11 === 3 && { expires_at: '+PT1S' }),
  }
  return { type: 'step', args: [], options }
}

export function carryOf(n: number): NewJob['carry'] {
  if (n % 4 === 1) return { tags: ['t'], resultTtlMs: n % 8 === 1 ? 0 : 300 }
  return n % 4 === 3 ? { concurrency: { key: KEY(n >> 2), limit: 1 + (n % 3) } } : null
}

/** Some requests have an idempotency key, of few. */
export function requestOf({ n }: Call) {
  const request = { key: `key-${n % 3}`, fingerprint: `${n % 2}` }
  return n % 6 === 1 ? { request } : {}
}

/** The last is that of a step of a workflow. */
const UNIQUE_KEYS = ['0'.repeat(64), '1'.repeat(64), keyOfStep()]

function keyOfStep(): string {
  const context = { newId: () => 'x', now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
  return toNewJob(stepOf(0), context).unique?.key ?? ''
}

export function uniqueOf(n: number): NewJob['unique'] {
  const states: JobState[] = ['available', 'scheduled', 'pending', 'active', 'retryable']
  return {
    key: UNIQUE_KEYS[(n >> 2) % UNIQUE_KEYS.length] ?? '',
    states: n % 3 === 0 ? [...states, 'completed'] : states,
    periodMs: n % 4 === 0 ? 500 : null,
    onConflict: CONFLICTS[n % CONFLICTS.length] ?? 'reject',
  }
}
