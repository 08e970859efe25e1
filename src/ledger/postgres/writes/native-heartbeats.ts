/** A native worker's heartbeat, for one of the jobs that it names. */
import { isHeldByKey } from '../../../job/concurrency.ts'
import { isHeldByLedger, standingOf } from '../../../job/job.ts'
import { decideBeat } from '../../../job/native/heartbeat.ts'
import { isOwedAgain, nativeExtended } from '../../../job/transitions/native.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { BeatResult, NativeBeat } from '../../native.ts'
import type { Draft } from '../group/draft.ts'
import { leaseOf } from './leases.ts'
import { leaveUnowned, startAttempt } from './start.ts'

/** Applies a heartbeat to one of the jobs that it names. */
export function beatJob(draft: Draft, id: string, beat: NativeBeat): BeatResult {
  const { workerId, ofQueue = null } = beat
  const row = draft.row(id)
  if (row === null) return beatUnknown(draft, id, ofQueue)
  const change = nativeExtended(row, beat)
  if (change) return { outcome: 'extended', lease: leaseOf(draft.change(row, change)) }
  if (ofQueue !== null && ofQueue !== row.queue) return { outcome: 'refused' }
  switch (decideBeat(workerId, row, beat)) {
    case 'start': {
      const promoted = row.state !== 'available'
      const next = { attempt: row.attempt + 1, skipped: [], promote: promoted }
      const after = startAttempt(draft, row, next, 'native', beat)
      const final = isJobMessageItsOwn(draft, row) ? after : leaveUnowned(draft, after)
      return { outcome: 'started', job: draft.job(final), promoted }
    }
    case 'resume': {
      const same = { attempt: row.attempt, skipped: [], promote: false }
      const after = startAttempt(draft, row, same, 'native', beat)
      return { outcome: 'resumed', job: draft.job(after) }
    }
    case 'cancelled':
      return { outcome: 'cancelled', job: standingOf(row) }
    case 'extend':
    case 'ignore':
      return { outcome: 'ignored' }
  }
}

function beatUnknown(draft: Draft, id: string, ofQueue: string | null): BeatResult {
  const tombstone = draft.isTombstoned(id, ofQueue) ? draft.tombstone(id) : null
  if (tombstone === null) return { outcome: 'ignored' }
  return { outcome: 'cancelled', job: { id, queue: tombstone.queue, generation: 0 } }
}

/**
 * Does the worker that runs this waiting job have the job message that counts, so that RabbitMQ redelivers it
 * if the worker dies? Not if that message is still owed (or will be, when the job is due): then the worker
 * runs an earlier attempt, whose lease had run out. But a job that has not been attempted yet has no earlier
 * attempt: then the worker has the message, and only its confirm has not arrived yet.
 */
function isJobMessageItsOwn({ memory }: Draft, row: KeptRow): boolean {
  const { outbox, attempt, generation } = row
  const isConfirmed = outbox === null || memory.confirming.has(outbox)
  if (!isHeldByLedger(row) && !isHeldByKey(row) && isConfirmed) return true
  return attempt === 0 && generation === 0 && !isOwedAgain(row)
}
