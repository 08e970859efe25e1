/** A native worker asks about a redelivered message: decided in this write. */
import {
  decideNativeClaim,
  isBegunFor,
  type NativeClaimDecision,
} from '../../../job/native/claim.ts'
import { returned } from '../../../job/transitions/end.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { ClaimTerms } from '../../leases.ts'
import type { NativeAnswer, NativeQuestion } from '../../native.ts'
import type { Draft } from '../group/draft.ts'
import { CHECKPOINTS } from '../group/notes.ts'
import { isPaused } from '../queues/pauses.ts'
import { adoptJob } from './adopt.ts'
import { leaveUnowned } from './start.ts'

type Terms = Omit<ClaimTerms, 'leaseMs'>

/** See `NativeLedger.claimNative`. No job has a concurrency key yet. */
export function claimNative(draft: Draft, question: NativeQuestion, terms: Terms): NativeAnswer {
  const { id, attempt, ofQueue } = question
  const row = draft.row(id)
  if (row !== null && ofQueue !== null && row.queue !== ofQueue)
    return { decision: 'discard', attempt }
  if (row !== null && question.isAgain && isBegunFor(question, row))
    return run(draft, id, row.attempt, true)
  const decision = decideNativeClaim(question, row, {
    now: terms.now,
    wall: terms.wall,
    isTombstoned: row === null && draft.isTombstoned(id, ofQueue),
    isHeldHere: question.isHeldHere(),
  })
  switch (decision.decision) {
    case 'run':
      return mayRun(draft, question, row, decision.attempt, terms)
    case 'drop':
      return drop(draft, question, row, decision)
    case 'discard':
      return { decision: 'discard', attempt }
  }
}

function run(draft: Draft, id: string, attempt: number, isBegun: boolean): NativeAnswer {
  const checkpoint = draft.side(CHECKPOINTS, id)
  return { decision: 'run', attempt, isBegun, start: null, checkpoint }
}

function mayRun(
  draft: Draft,
  question: NativeQuestion,
  row: KeptRow | null,
  attempt: number,
  terms: Terms,
): NativeAnswer {
  const { adopt, isKeyed, heardOn } = question
  if (isPaused(draft, row?.queue ?? heardOn)) return { decision: 'requeue', attempt }
  if (!isKeyed || row !== null || adopt === undefined)
    return run(draft, question.id, attempt, false)
  const error = adoptJob(draft, { ...question, adopt }, terms.now)
  return error === null ? claimNative(draft, question, terms) : { decision: 'discard', attempt }
}

function drop(
  draft: Draft,
  { attempt }: NativeQuestion,
  row: KeptRow | null,
  { isOver, handOver }: Extract<NativeClaimDecision, { decision: 'drop' }>,
): NativeAnswer {
  const back = row !== null && isOver ? returned(row, row.generation, attempt) : null
  const after = row !== null && back !== null ? draft.change(row, back) : row
  if (after !== null && handOver) leaveUnowned(draft, after)
  return { decision: 'drop', attempt }
}
