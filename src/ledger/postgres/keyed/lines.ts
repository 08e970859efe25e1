/** Jobs with a concurrency key: may they begin, and what is loaded for many of them at once. */
import { historyLine } from '../../../job/history/changes.ts'
import type { JobRow, NewJob } from '../../../job/job.ts'
import { heldWithMessage } from '../../../job/transitions/held.ts'
import type { Change, KeptRow } from '../../../job/transitions/row.ts'
import { freed, type Line, mayBegin } from '../../writes/lines.ts'
import type { Draft, Wants } from '../group/draft.ts'
import { ACTIVE, DraftLines, lineWants } from '../group/lines.ts'
import { wanted } from '../group/side.ts'

/** May an attempt of this waiting job begin, by its own limit? */
export function mayStart(draft: Draft, row: KeptRow): boolean {
  if (row.concurrencyKey === null) return true
  const policy = draft.job(row).carry?.concurrency
  return policy === undefined || mayBegin(new DraftLines(draft), policy)
}

/** Holds a job back whose message has come, and is about to be acknowledged. */
export function holdArrived(
  draft: Draft,
  row: KeptRow,
  before: Required<Pick<Change, 'attempt' | 'error' | 'errors'>>,
  now: number,
): JobRow {
  const line = historyLine(now, 'available', before.attempt ?? 0, null, { reason: 'due' })
  const held = draft.put(row, heldWithMessage(row, before, now, line))
  const lines = new DraftLines(draft)
  lines.held(held.queue)
  // Another job of the line may have a higher limit.
  for (const own of linesOf([held])) freed(lines, own, false)
  return draft.job(draft.row(held.id) ?? held)
}

/** Loads at once what the changes of these jobs read, one after the other. Mostly no job has a key. */
export function lookUpLines(draft: Draft, ids: readonly string[]): void {
  const lines = linesOf(draft.rows(ids))
  if (lines.length > 0) draft.require(lineWants(draft.schema, lines))
}

/** Before attempts begin, which mostly reads no line. */
export function lookUpActive(draft: Draft, ids: readonly string[]): void {
  const keys = linesOf(draft.rows(ids)).map(({ key }) => key)
  if (keys.length > 0) draft.require({ sides: [wanted(ACTIVE, keys)] })
}

/** What the insert of these jobs reads; null: nothing. */
export function newLines(schema: string, jobs: readonly NewJob[]): Wants | null {
  const lines = jobs.flatMap(({ carry, queue }) =>
    carry?.concurrency === undefined ? [] : [{ key: carry.concurrency.key, queue }],
  )
  return lines.length === 0 ? null : lineWants(schema, lines)
}

function linesOf(rows: readonly Pick<KeptRow, 'concurrencyKey' | 'queue'>[]): Line[] {
  return rows.flatMap(({ concurrencyKey: key, queue }) => (key === null ? [] : [{ key, queue }]))
}
