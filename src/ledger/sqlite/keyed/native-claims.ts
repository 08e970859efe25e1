/** A native worker asks about a redelivered message: decided, and begun where it has a key, in this write. */
import type { JobRow } from '../../../job/job.ts'
import type { NativeAnswer, NativeQuestion } from '../../native.ts'
import { answerNative, type ClaimedRows, type NativeTerms } from '../../writes/native-claims.ts'
import { holdArrived, mayBegin } from '../concurrency/lines.ts'
import { toJobRow } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { adoptJob } from '../writes/adopt.ts'
import { leaveUnowned, startNative } from '../writes/start.ts'

/** See `NativeLedger.claimNative`. */
export function claimNative(
  store: Store,
  question: NativeQuestion,
  terms: NativeTerms,
): NativeAnswer {
  return answerNative(rowsOf(store, terms), question, terms)
}

function rowsOf(store: Store, terms: NativeTerms): ClaimedRows<JobRow> {
  const { statements } = store
  return {
    find: (id) => toJobRow(statements.find.get(id)),
    isTombstoned: (id, queue) => store.tombstones.has(id, queue),
    isPaused: (queue) => store.pauses.isPaused(queue),
    checkpoint: (id) => store.notes.checkpoint(id),
    adopt: (question) => !(adoptJob(store, question, terms.now) instanceof Error),
    hasKey: ({ carry }) => carry?.concurrency !== undefined,
    mayBegin: (row) => mayBegin(store, row),
    whole: (row) => row,
    begin: (row, beginning) => startNative(store, row, beginning, { ...terms, leaseMs: null }),
    hold: (row, before) => holdArrived(store, row, before, terms.now),
    messageReturned: ({ id, generation }, attempt) =>
      statements.messageReturned.run(id, generation, attempt),
    leaveToLedger: (row) => leaveUnowned(store, row),
  }
}
