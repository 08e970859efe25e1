import { isHeldByLedger, type JobRow } from '../../job/job.ts'
import { decideBeat } from '../../job/native-heartbeat.ts'
import type { BeatResult, NativeBeat } from '../native.ts'
import { begin, isOwedAgain, leaveUnowned } from './native-start.ts'
import { toStanding } from './rows.ts'
import { changed, type Store } from './store.ts'

/** One job that a heartbeat names. */
export function beatJob(store: Store, id: string, beat: NativeBeat): BeatResult {
  const { now, workerId, leaseMs } = beat
  const lease = store.statements.extendNative.get(id, now, leaseMs, workerId)
  if (lease) return { outcome: 'extended', lease }
  const standing = toStanding(store.statements.standing.get(id))
  if (standing === null) return beatUnknown(store, id)
  switch (decideBeat(workerId, standing, beat)) {
    case 'start': {
      const row = changed(store.statements.find.get(id))
      const promote = row.state !== 'available'
      const event = { attempt: row.attempt + 1, workerId }
      const job = begin(store, event, beat, row, { skipped: [], promote }, leaseMs)
      if (!isTokenItsOwn(store, row)) leaveUnowned(store, job)
      return { outcome: 'started', job, promoted: promote }
    }
    case 'resume': {
      const row = changed(store.statements.find.get(id))
      const event = { attempt: row.attempt, workerId }
      const job = begin(store, event, beat, row, null, leaseMs)
      return { outcome: 'resumed', job }
    }
    case 'cancelled':
      return { outcome: 'cancelled', job: standing }
    case 'extend':
    case 'ignore':
      return { outcome: 'ignored' }
  }
}

function beatUnknown({ tombstones }: Store, id: string): BeatResult {
  const queue = tombstones.queueOf(id)
  return queue === null
    ? { outcome: 'ignored' }
    : { outcome: 'cancelled', job: { id, queue, generation: 0 } }
}

/**
 * Does a worker that runs this waiting job have the token that counts, so that it comes back when the
 * worker dies? Not where that is owed, or is still to be made: it runs an earlier attempt then, whose
 * lease had run out. Of a first attempt there is no earlier one, only a confirm that is not here yet.
 */
function isTokenItsOwn({ confirming }: Store, row: JobRow): boolean {
  const { outbox, attempt, generation } = row
  if (!isHeldByLedger(row) && (outbox === null || confirming.has(outbox))) return true
  return attempt === 0 && generation === 0 && !isOwedAgain(row)
}
