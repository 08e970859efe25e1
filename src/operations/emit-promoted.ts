import type { JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'

/** A token that was faster than the promoter: the job became available and was claimed at once. */
export function emitPromoted(deps: Deps, claimed: JobRow): void {
  const attempt = claimed.attempt - 1
  const job: JobRow = { ...claimed, state: 'available', attempt, workerId: null, startedAt: null }
  deps.events.emit({ type: 'job.enqueued', job, promoted: true })
}
