/** Prunes rows whose retention time is over, in small batches. */
import { isErased, type JobRow } from '../../../job/job.ts'
import type { PruneCutoffs } from '../../ledger.ts'
import type { Flag } from '../sql/driver.ts'
import type { PrunableRow } from '../sql/end.ts'
import type { Store } from '../state/store.ts'

interface Kind {
  state: 'completed' | 'cancelled' | 'discarded' | 'withdrawn'
  isDeadLetter: Flag
  cutoff: keyof PruneCutoffs
}

const DEAD_LETTER: Kind = { state: 'discarded', isDeadLetter: 1, cutoff: 'deadLetters' }
const KINDS: readonly Kind[] = [
  { state: 'completed', isDeadLetter: 0, cutoff: 'completed' },
  { state: 'cancelled', isDeadLetter: 0, cutoff: 'cancelled' },
  { state: 'discarded', isDeadLetter: 0, cutoff: 'discarded' },
  DEAD_LETTER,
  { state: 'withdrawn', isDeadLetter: 0, cutoff: 'withdrawn' },
]

/**
 * How many rows of a kind one batch looks at. The rows of unpruned workflows are kept, and there may be any
 * number of them.
 */
const MAX_LOOKED_AT = 2_000
/** How many bytes one batch deletes: SQLite walks through every page of a row to free it. */
const MAX_BYTES = 16 * 1024 * 1024

/** The rows that one batch looks at: `from` <= ended_at < `to`. */
interface Span {
  from: number
  to: number
  /** The `from` of the next batch, once everything in this span is pruned. */
  next: number
}

/** Prunes one batch of rows whose retention time is over. Returns how many rows it changed. */
export function pruneBatch(
  store: Store,
  cutoffs: PruneCutoffs,
  now: number,
  limit: number,
): number {
  let left = limit
  for (const kind of KINDS) {
    if (left === 0) break
    const span = spanOf(store, kind, cutoffs[kind.cutoff])
    const { rows, isAll } = choose(store, kind, span, left)
    for (const row of rows) remove(store, kind, row, now)
    left -= rows.length
    // The byte limit left some rows of this span: the next batch begins with them.
    if (!isAll) return limit - left
    if (left > 0) store.pruned.set(kind, span.next)
  }
  if (left > 0) left -= store.tombstones.prune(cutoffs.withdrawn, left)
  if (left > 0) left -= store.keptKeys.prune(now, left)
  if (left > 0) left -= pruneWorkflows(store, cutoffs.completed, left)
  return limit - left
}

/** Drops the result of a job that has just been completed, or notes when it is to go. */
export function limitResult({ statements }: Store, job: JobRow, ttlMs: number): void {
  if (ttlMs > 0) {
    statements.noteResultEnd.run(job.id, ttlMs)
    return
  }
  statements.dropResult.run(job.id)
  job.result = null
}

/** Drops results whose time is over. Returns how many entries are done. */
export function pruneResults({ statements }: Store, now: number, limit: number): number {
  const ending = statements.resultsEnding.all(now, limit)
  for (const { job, completedAt } of ending) {
    statements.pruneResult.run(job, completedAt)
    statements.forgetResultEnd.run(job)
  }
  return ending.length
}

/** Prunes the oldest dead letters of a queue that has more than `max`. Returns how many rows it changed. */
export function pruneDeadLetters(
  store: Store,
  { queue, max }: { queue: string; max: number },
  now: number,
  limit: number,
): number {
  const surplus = store.counter.deadLetters(queue) - max
  if (surplus <= 0) return 0
  const { oldestDeadLetters } = store.statements
  const found = oldestDeadLetters.all(queue, MAX_LOOKED_AT, Math.min(surplus, limit))
  const { rows } = withinBytes(found)
  for (const row of rows) remove(store, DEAD_LETTER, row, now)
  return rows.length
}

/**
 * Sets ends that lie in the future to `now`: the clock was ahead when they were written, and is right again.
 * Returns how many rows it changed.
 */
export function boundEnds(store: Store, now: number, limit: number): number {
  let left = limit
  for (const { state, isDeadLetter } of KINDS) {
    if (left === 0) break
    left -= store.statements.boundEnds.run(state, isDeadLetter, now, left).changes
  }
  if (left > 0) left -= store.statements.boundTombstones.run(now, left).changes
  if (left > 0) left -= store.workflows.statements.boundEnds.run(now, left).changes
  return limit - left
}

/** The span begins where the last batch ended; after the newest row, it begins at the oldest again. */
function spanOf(store: Store, kind: Kind, cutoff: number): Span {
  const from = store.pruned.get(kind) ?? Number.MIN_SAFE_INTEGER
  const { state, isDeadLetter } = kind
  const found = store.statements.prunableAfter.get(state, isDeadLetter, cutoff, from, MAX_LOOKED_AT)
  if (found === undefined) return { from, to: cutoff, next: Number.MIN_SAFE_INTEGER }
  const next = found.endedAt + 1
  return { from, to: next, next }
}

/**
 * Prunes ended workflows, all of them by the retention time of completed jobs, so that few job rows have to
 * wait for their workflow. The last workflow may exceed `limit`.
 */
function pruneWorkflows(store: Store, cutoff: number, limit: number): number {
  const { oldestEnded, forgetSteps, forget } = store.workflows.statements
  let changed = 0
  while (changed < limit) {
    const row = oldestEnded.get(cutoff)
    if (row === undefined) break
    changed += forgetSteps.run(row.seq).changes + forget.run(row.seq).changes
    store.workflows.moved(row.state, null)
  }
  return changed
}

/** The rows that one batch deletes: as many as its byte limit allows, at least one. `isAll`: all found. */
function choose(
  store: Store,
  { state, isDeadLetter }: Kind,
  { from, to }: Span,
  limit: number,
): { rows: PrunableRow[]; isAll: boolean } {
  const { prunable } = store.statements
  return withinBytes(prunable.all(state, isDeadLetter, to, from, limit))
}

function withinBytes(found: PrunableRow[]): { rows: PrunableRow[]; isAll: boolean } {
  let bytes = 0
  const rows = found.filter((row, i) => {
    bytes += row.bytes
    return i === 0 || bytes <= MAX_BYTES
  })
  return { rows, isAll: rows.length === found.length }
}

/**
 * Deletes a row, or erases it while something of it may still come: the copy of a discarded job in the DLX
 * queue, also one that is not recorded yet; or of a job that was retried, the message of the life before,
 * which waited in a retry queue then. Without the row that message would be taken for a new job.
 */
function remove(store: Store, kind: Kind, row: PrunableRow, now: number): void {
  const { state, isDeadLetter } = kind
  const { seq, id, queue, isCopied, isUnique, hasLived } = row
  const isFirst = !isErased(state)
  if (isFirst) store.statements.cronRunEnd.run(id)
  if (isUnique === 1 && isFirst) store.keptKeys.keep(seq, state, now)
  store.notes.forgetRow(seq)
  if (isFirst && (state === 'discarded' || hasLived === 1)) {
    store.statements.pruneToErased.run(seq, now)
    if (state === 'discarded' && isCopied === 1) store.stale.add(queue)
  } else store.statements.prune.run(seq)
  if (isFirst) store.counter.moved(queue, state, null)
  if (isDeadLetter === 1) store.counter.moved(queue, 'dead_letter', null)
}
