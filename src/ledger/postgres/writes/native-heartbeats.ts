/** A native worker's heartbeat, for one of the jobs that it names. */
import { standingOf } from '../../../job/job.ts'
import { decideBeat } from '../../../job/native/heartbeat.ts'
import { isMessageItsOwn, nativeExtended } from '../../../job/transitions/native.ts'
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
  const generation = beat.generations?.get(id) ?? 0
  switch (decideBeat({ workerId, generation }, row, beat)) {
    case 'start': {
      const promoted = row.state !== 'available'
      const next = { attempt: row.attempt + 1, skipped: [], promote: promoted }
      const after = startAttempt(draft, row, next, 'native', beat)
      const final = isMessageItsOwn(row, draft.memory.confirming)
        ? after
        : leaveUnowned(draft, after)
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
