import { isErased } from '../../job/job.ts'
import type { PruneCutoffs } from '../ledger.ts'
import type { PrunableRow } from './end-statements.ts'
import type { Store } from './store.ts'

interface Kind {
  state: 'completed' | 'cancelled' | 'discarded' | 'withdrawn'
  isDeadLetter: boolean
  cutoff: keyof PruneCutoffs
}

const KINDS: readonly Kind[] = [
  { state: 'completed', isDeadLetter: false, cutoff: 'completed' },
  { state: 'cancelled', isDeadLetter: false, cutoff: 'cancelled' },
  { state: 'discarded', isDeadLetter: false, cutoff: 'discarded' },
  { state: 'discarded', isDeadLetter: true, cutoff: 'deadLetters' },
  { state: 'withdrawn', isDeadLetter: false, cutoff: 'withdrawn' },
]

/**
 * So many rows of a kind are looked at in one batch: those of workflows that are not over stay, and
 * may be any number.
 */
const MAX_LOOKED_AT = 2_000
/** SQLite walks through every page of a row to free it. */
const MAX_BYTES = 16 * 1024 * 1024

/** What a batch may look at: ended from `from` on and before `to`. */
interface Span {
  from: number
  to: number
  /** Where the next batch goes on, once this one has found no more. */
  next: number
}

/** One batch of what is over for long enough. Returns how many rows it changed. */
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
    // What is left beyond the bound comes first the next time.
    if (!isAll) return limit - left
    if (left > 0) store.pruned.set(kind, span.next)
  }
  if (left > 0) left -= store.tombstones.prune(cutoffs.withdrawn, left)
  if (left > 0) left -= pruneWorkflows(store, cutoffs.completed, left)
  return limit - left
}

/**
 * What ended in the future, by a clock that was ahead and is right again, has ended now. Returns how many
 * rows it changed.
 */
export function boundEnds(store: Store, now: number, limit: number): number {
  let left = limit
  for (const { state, isDeadLetter } of KINDS) {
    if (left === 0) break
    left -= store.statements.boundEnds.run(state, isDeadLetter ? 1 : 0, now, left).changes
  }
  if (left > 0) left -= store.statements.boundTombstones.run(now, left).changes
  if (left > 0) left -= store.workflows.statements.boundEnds.run(now, left).changes
  return limit - left
}

/** From where the last batch ended; behind the newest one, from the oldest again. */
function spanOf(store: Store, kind: Kind, cutoff: number): Span {
  const from = store.pruned.get(kind) ?? Number.MIN_SAFE_INTEGER
  const { state, isDeadLetter } = kind
  const found = store.statements.prunableAfter.get(
    state,
    isDeadLetter ? 1 : 0,
    cutoff,
    from,
    MAX_LOOKED_AT,
  )
  if (found === undefined) return { from, to: cutoff, next: Number.MIN_SAFE_INTEGER }
  const next = found.endedAt + 1
  return { from, to: next, next }
}

/**
 * Ended workflows go with the first of their jobs: all of them with the time of completed jobs, so
 * that few rows ever wait for their workflow. `limit` may be passed by one workflow.
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

/** `isAll`: as many as were found. At least one. */
function choose(
  store: Store,
  { state, isDeadLetter }: Kind,
  { from, to }: Span,
  limit: number,
): { rows: PrunableRow[]; isAll: boolean } {
  const { prunable } = store.statements
  const found = prunable.all(state, isDeadLetter ? 1 : 0, to, from, limit)
  let bytes = 0
  const rows = found.filter((row, i) => {
    bytes += row.bytes
    return i === 0 || bytes <= MAX_BYTES
  })
  return { rows, isAll: rows.length === found.length }
}

/**
 * A copy in the DLX queue outlives its row, and one that nobody has heard of yet may come later: the id
 * stays for a while.
 */
function remove(
  store: Store,
  kind: Kind,
  { seq, queue, isCopied }: PrunableRow,
  now: number,
): void {
  const { state, isDeadLetter } = kind
  if (state === 'discarded') {
    store.statements.pruneCopied.run(seq, now)
    if (isCopied === 1) store.stale.add(queue)
  } else store.statements.prune.run(seq)
  if (!isErased(state)) store.counter.moved(queue, state, null)
  if (isDeadLetter) store.counter.moved(queue, 'dead_letter', null)
}
