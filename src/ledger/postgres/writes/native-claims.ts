/** A native worker asks about a redelivered message: decided in this write. */
import { returned } from '../../../job/transitions/end.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { NativeAnswer, NativeQuestion } from '../../native.ts'
import { answerNative, type ClaimedRows, type NativeTerms } from '../../writes/native-claims.ts'
import type { Draft } from '../group/draft.ts'
import { CHECKPOINTS } from '../group/notes.ts'
import { holdArrived, mayStart } from '../keyed/lines.ts'
import { isPaused } from '../queues/pauses.ts'
import { adoptJob } from './adopt.ts'
import { leaveUnowned, startNative } from './start.ts'

/** See `NativeLedger.claimNative`. */
export function claimNative(
  draft: Draft,
  question: NativeQuestion,
  terms: NativeTerms,
): NativeAnswer {
  return answerNative(rowsOf(draft, terms), question, terms)
}

function rowsOf(draft: Draft, terms: NativeTerms): ClaimedRows<KeptRow> {
  return {
    find: (id) => draft.row(id),
    isTombstoned: (id, queue) => draft.isTombstoned(id, queue),
    isPaused: (queue) => isPaused(draft, queue),
    checkpoint: (id) => draft.side(CHECKPOINTS, id),
    adopt: (question) => adoptJob(draft, question, terms.now) === null,
    hasKey: ({ concurrencyKey }) => concurrencyKey !== null,
    mayBegin: (row) => mayStart(draft, row),
    whole: (row) => draft.job(row),
    begin: (row, beginning) =>
      draft.job(startNative(draft, row, beginning, { ...terms, leaseMs: null })),
    hold: (row, before) => holdArrived(draft, row, before, terms.now),
    messageReturned: ({ id, generation }, attempt) => {
      const row = draft.row(id)
      const back = row && returned(row, generation, attempt)
      if (row && back) draft.change(row, back)
    },
    leaveToLedger: (row) => leaveUnowned(draft, row),
  }
}
