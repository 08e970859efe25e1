/** Another priority for a job that waits. */
import { withPriority } from '../../../job/document.ts'
import { historyLine, PRIORITY_CHANGED } from '../../../job/history/changes.ts'
import { hasMessage } from '../../../job/priority.ts'
import { prioritized } from '../../../job/transitions/priority.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { Ledger, Prioritized } from '../../ledger.ts'
import { unprioritized } from '../../writes/priority.ts'
import type { Draft } from '../group/draft.ts'

type Terms = Parameters<Ledger['prioritize']>[2]

/** See `Ledger.prioritize`. */
export function prioritizeJob(
  draft: Draft,
  id: string,
  priority: number,
  terms: Terms,
): Prioritized {
  const row = draft.row(id)
  const before = row && draft.job(row)
  const refused = unprioritized(before, priority, terms)
  if (refused !== null || row === null || before === null)
    return refused ?? { outcome: 'not_found', row: null }
  const isReplaced = hasMessage(row)
  const after = write(
    draft,
    row,
    { priority, envelope: withPriority(before.envelope, priority) },
    terms,
  )
  return { outcome: 'prioritized', job: draft.job(after), before, isReplaced }
}

function write(
  draft: Draft,
  row: KeptRow,
  change: { priority: number; envelope: string },
  { now, cause }: Terms,
): KeptRow {
  const { id, queue, state, attempt } = row
  const line = historyLine(now, state, attempt, null, { ...cause, reason: PRIORITY_CHANGED })
  // A native worker that comes later may be given the old message before anybody else.
  if (hasMessage(row)) draft.recordTombstone(id, { queue, isScoped: false, cancelledAt: now })
  return draft.change(row, prioritized(row, change, draft.nextNonce(), line))
}
