/** Stores, withdraws and activates jobs. */
import { isHeldByKey } from '../../../job/concurrency.ts'
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import {
  freshRow,
  isCancelledMessageOut,
  isErased,
  isTerminal,
  type JobRow,
  type NewJob,
  standingOf,
} from '../../../job/job.ts'
import type { Stale } from '../../../job/stale.ts'
import { activated } from '../../../job/transitions/due.ts'
import { withdrawn } from '../../../job/transitions/end.ts'
import type { KeptRow, Texts } from '../../../job/transitions/row.ts'
import type { Enqueued } from '../../enqueued.ts'
import type { WithdrawFence } from '../../ledger.ts'
import type { Draft } from '../group/draft.ts'
import { IDEMPOTENCY_KEYS } from '../records/idempotency.ts'

interface FirstLife {
  now: number
  enqueuedAt: number
  generation: number
  attempt: number
  outbox: number | null
  cause: Cause
  /** See `KeptRow`. Then its id is a new one. */
  step?: string | undefined
}

/** Stores a job in its start state, and records its queue. Returns the row, or null when the id is taken. */
export function insertJob(draft: Draft, job: NewJob, life: FirstLife): KeptRow | null {
  const { step = null } = life
  const before = step === null ? draft.row(job.id) : null
  if (before !== null && !isErased(before.state)) return null
  // Workers drop generation 0 of an id that was cancelled before its job was known; this is another job.
  const isCancelled = step === null && draft.hasLastingTombstone(job.id, job.queue)
  const first = isCancelled ? life.generation + 1 : life.generation
  const generation = before === null ? first : before.generation + 1
  const { outbox, enqueuedAt, attempt } = life
  const fresh = freshRow(job, { generation, outbox, enqueuedAt })
  const { carry, error, errors, result, envelope } = fresh
  const history = historyLine(life.now, job.start.state, attempt, null, life.cause)
  const concurrencyKey = carry?.concurrency?.key ?? null
  const keys = { uniqueKey: job.unique?.key ?? null, cronEntry: null, step, concurrencyKey }
  const kept = { endedAt: null, extendedMs: null, history, seq: before?.seq ?? null }
  const row: KeptRow = Object.assign(standingOf(fresh), { attempt }, kept, keys)
  const texts: Texts = { carry, error, errors, result, envelope }
  // A native worker that comes later may be given the message of the cancelled job.
  if (before !== null && isCancelledMessageOut(before))
    draft.recordTombstone(job.id, { queue: before.queue, isScoped: false, cancelledAt: life.now })
  draft.recordQueue(job.queue, life.now)
  draft.traffic.enqueued(job.queue, life.now)
  return draft.insert(row, texts)
}

/** Stores one job, without regard to a `unique` policy. */
export function enqueue(
  draft: Draft,
  job: NewJob,
  now: number,
  cause: Cause = {},
  step?: string,
): Enqueued {
  const outbox = job.start.state === 'available' ? draft.nextNonce() : null
  const life = { now, enqueuedAt: now, generation: 0, attempt: 0, outbox, cause, step }
  const row = insertJob(draft, job, life)
  if (row === null) return { outcome: 'duplicate' }
  const stored = { generation: row.generation, outbox: row.outbox, enqueuedAt: now }
  if (row.concurrencyKey === null) return { outcome: 'inserted', ...stored }
  return { outcome: 'inserted', ...stored, isHeld: isHeldByKey(row) }
}

/** Notes on a dead letter as which job it was retried. */
export function linkRetry(draft: Draft, id: string, retriedAs: string): void {
  const row = draft.row(id)
  if (row === null || isErased(row.state)) return
  draft.change(row, { carry: { ...draft.job(row).carry, retriedAs } })
}

/** Stores a scheduled job that was published natively, unless its id was cancelled before it came. */
export function enqueueNative(
  draft: Draft,
  job: NewJob,
  now: number,
): Enqueued | { outcome: 'tombstoned' } {
  if (draft.isTombstoned(job.id, job.queue)) return { outcome: 'tombstoned' }
  return enqueue(draft, job, now)
}

/** Erases the row of a refused PUSH, and forgets its idempotency key. */
export function withdraw(draft: Draft, id: string, outbox: number, key?: string): boolean {
  const row = draft.row(id)
  if (row?.outbox !== outbox || row.state !== 'available' || row.attempt !== 0) return false
  draft.change(row, withdrawn(row))
  draft.traffic.withdrawn(row.queue, draft.memory.wall())
  if (key !== undefined) draft.putSide(IDEMPOTENCY_KEYS, key, null)
  return true
}

/** The same for a batch. Returns the ids of jobs that have started or ended. */
export function withdrawAll(
  draft: Draft,
  fences: readonly WithdrawFence[],
  key?: string,
): string[] {
  if (key !== undefined) draft.putSide(IDEMPOTENCY_KEYS, key, null)
  const started = fences.filter(({ id, generation }) => {
    const row = draft.row(id)
    const isOver = row === null || isTerminal(row.state)
    if (isOver || row.generation !== generation || row.attempt !== 0) return true
    draft.change(row, withdrawn(row))
    draft.traffic.withdrawn(row.queue, draft.memory.wall())
    return false
  })
  return started.map(({ id }) => id)
}

/** Makes a pending job `available`, or `scheduled` if its time is still ahead. */
export function activate(
  draft: Draft,
  id: string,
  times: { now: number; wall: number },
  cause: Cause,
): JobRow | Stale {
  const row = draft.row(id)
  const line = (state: 'available' | 'scheduled') => historyLine(times.now, state, 0, null, cause)
  const lines = { available: line('available'), scheduled: line('scheduled') }
  const change = row && activated(row, { ...times, nonce: draft.nextNonce() }, lines)
  return row && change ? draft.job(draft.change(row, change)) : draft.stale(id)
}
