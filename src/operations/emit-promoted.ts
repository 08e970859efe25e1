/** The `job.enqueued` event of a job that was promoted and claimed in one commit. */
import type { JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'

/**
 * Emits the `job.enqueued` that belongs before `job.started` when a job message arrived before the promoter
 * ran: the job became available and was claimed in one commit.
 */
export function emitPromoted(deps: Deps, claimed: JobRow): void {
  const attempt = claimed.attempt - 1
  const job: JobRow = { ...claimed, state: 'available', attempt, workerId: null, startedAt: null }
  emitDue(deps, job)
}

/** Emits the `job.enqueued` of a job whose time came. A job that was not tried yet was scheduled. */
export function emitDue(deps: Pick<Deps, 'events'>, job: JobRow): void {
  const from = job.attempt > 0 ? 'retryable' : 'scheduled'
  deps.events.emit({ type: 'job.enqueued', job, promoted: true, from })
}
