/** A native worker's heartbeat, for one of the jobs that it names. */
import { decideBeat } from '../../../job/native/heartbeat.ts'
import { isMessageItsOwn } from '../../../job/transitions/native.ts'
import type { BeatResult, NativeBeat } from '../../native.ts'
import { changed, toStanding } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { leaveUnowned, startAttempt } from './start.ts'

/** Applies a heartbeat to one of the jobs that it names. */
export function beatJob(store: Store, id: string, beat: NativeBeat): BeatResult {
  const { now, workerId, leaseMs, ofQueue = null } = beat
  const lease = store.statements.extendNative.get(id, now, leaseMs, workerId, ofQueue)
  if (lease) return { outcome: 'extended', lease }
  const standing = toStanding(store.statements.standing.get(id))
  if (standing === null) return beatUnknown(store, id, ofQueue)
  if (ofQueue !== null && ofQueue !== standing.queue) return { outcome: 'refused' }
  const generation = beat.generations?.get(id) ?? 0
  switch (decideBeat({ workerId, generation }, standing, beat)) {
    case 'start': {
      const row = changed(store.statements.find.get(id))
      const promote = row.state !== 'available'
      const next = { attempt: row.attempt + 1, skipped: [], promote }
      const job = startAttempt(store, row, next, 'native', beat)
      if (!isMessageItsOwn(row, store.confirming)) leaveUnowned(store, job)
      return { outcome: 'started', job, promoted: promote }
    }
    case 'resume': {
      const row = changed(store.statements.find.get(id))
      const same = { attempt: row.attempt, skipped: [], promote: false }
      return { outcome: 'resumed', job: startAttempt(store, row, same, 'native', beat) }
    }
    case 'cancelled':
      return { outcome: 'cancelled', job: standing }
    case 'extend':
    case 'ignore':
      return { outcome: 'ignored' }
  }
}

function beatUnknown({ tombstones }: Store, id: string, ofQueue: string | null): BeatResult {
  const queue = tombstones.queueOf(id, ofQueue)
  return queue === null
    ? { outcome: 'ignored' }
    : { outcome: 'cancelled', job: { id, queue, generation: 0 } }
}
