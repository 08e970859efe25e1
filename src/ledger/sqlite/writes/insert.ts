/** Stores one job in its start state, with its queue and its keys. */
import { isHeldByKey } from '../../../job/concurrency.ts'
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import {
  freshRow,
  isCancelledMessageOut,
  isErased,
  isTerminal,
  type JobRow,
  type JobState,
  type NewJob,
} from '../../../job/job.ts'
import type { Stale } from '../../../job/stale.ts'
import type { Enqueued } from '../../enqueued.ts'
import type { WithdrawFence } from '../../ledger.ts'
import { freed, freedKey, inTurn, noteKey } from '../concurrency/lines.ts'
import { toJobRow } from '../sql/rows.ts'
import type { NewRow } from '../sql/statements.ts'
import type { Keyed } from '../state/recent-unique-keys.ts'
import { staleOf } from '../state/stale-row.ts'
import type { Store } from '../state/store.ts'

interface FirstLife {
  now: number
  enqueuedAt: number
  generation: number
  attempt: number
  outbox: number | null
  /** See `mayCrowd`, which is asked if this is absent. */
  isCrowded?: boolean | undefined
  cause: Cause
}

/**
 * Stores a job in its start state, and records its queue. Returns the generation, or null when the id is
 * taken. Two statements instead of one upsert: RETURNING would make it a third more expensive, and an id is
 * hardly ever used again.
 */
export function insertJob(store: Store, job: NewJob, life: FirstLife): number | null {
  // Workers drop generation 0 of an id that was cancelled before its job was known; this is another job.
  const isCancelled = store.tombstones.lasts(job.id, job.queue)
  const first = isCancelled ? life.generation + 1 : life.generation
  const key = job.unique === null ? null : job.unique.key
  const isCrowded = key !== null && (life.isCrowded ?? mayCrowd(store.recentKeys.find(key)))
  const values: NewRow = [
    job.id,
    job.type,
    job.queue,
    job.priority,
    job.maxAttempts,
    job.visibilityTimeoutMs,
    job.timeoutMs,
    job.expiresAt,
    job.createdAt,
    job.carry === null ? null : JSON.stringify(job.carry),
    job.envelope,
    life.enqueuedAt,
    first,
    life.attempt,
    life.outbox,
    job.start.state,
    job.start.state === 'available' ? null : job.start.dueAt,
    key,
    isCrowded ? 1 : 0,
    historyLine(life.now, job.start.state, life.attempt, null, life.cause),
  ]
  const { changes, lastInsertRowid } = store.statements.insert.run(...values)
  const stored =
    changes === 1
      ? { seq: lastInsertRowid, generation: first }
      : insertAgain(store, values, life.now)
  if (stored === undefined) return null
  store.recentKeys.inserted(stored.seq, key, isCrowded)
  noteKey(store, job.id, job.carry)
  store.queues.record({ name: job.queue, createdAt: life.now })
  store.counter.moved(job.queue, null, job.start.state)
  store.traffic.note.enqueued(job.queue, life.now)
  return stored.generation
}

/** Under the id of an erased row; undefined: it is taken. */
function insertAgain({ statements, tombstones }: Store, values: NewRow, now: number) {
  const [id] = values
  const before = toJobRow(statements.find.get(id))
  const stored = statements.insertAgain.get(...values)
  // A native worker that comes later may be given the message of the cancelled job.
  if (stored && before && isCancelledMessageOut(before)) tombstones.record(id, before.queue, now)
  return stored
}

/** Rows of one key, after which the next ones are `crowded`: to look at each of them would take long. */
const FEW = 4

/** Must the next row of this key be `crowded`? */
export function mayCrowd({ seqs }: Keyed): boolean {
  return seqs.length >= FEW
}

/** Stores one job, without regard to its `unique` policy. `isCrowded`: as in `FirstLife`. */
export function enqueue(
  store: Store,
  job: NewJob,
  now: number,
  cause: Cause = {},
  isCrowded?: boolean,
): Enqueued {
  const outbox = job.start.state === 'available' ? store.nonces.next() : null
  const generation = insertJob(store, job, {
    now,
    enqueuedAt: now,
    generation: 0,
    attempt: 0,
    outbox,
    isCrowded,
    cause,
  })
  if (generation === null) return { outcome: 'duplicate' }
  const stored = { generation, outbox, enqueuedAt: now }
  if (job.carry?.concurrency === undefined) return { outcome: 'inserted', ...stored }
  const row = inTurn(store, freshRow(job, stored))
  return { outcome: 'inserted', ...stored, outbox: row.outbox, isHeld: isHeldByKey(row) }
}

/** Stores a scheduled job that was published natively, unless its id was cancelled before it came. */
export function enqueueNative(
  store: Store,
  job: NewJob,
  now: number,
): Enqueued | { outcome: 'tombstoned' } {
  return store.tombstones.has(job.id, job.queue)
    ? { outcome: 'tombstoned' }
    : enqueue(store, job, now)
}

/** Erases the row of a refused PUSH, and forgets its idempotency key. */
export function withdraw(store: Store, id: string, outbox: number, key?: string): boolean {
  const row = store.statements.withdraw.get(id, outbox)
  if (!row) return false
  store.counter.moved(row.queue, 'available', null)
  store.notes.forget(id)
  store.traffic.note.withdrawn(row.queue, store.wall())
  if (row.key !== null) freedKey(store, { key: row.key, queue: row.queue })
  if (key !== undefined) store.statements.forgetKey.run(key)
  return true
}

/** The same for a batch. Returns the ids of jobs that have started or ended. */
export function withdrawAll(store: Store, rows: readonly WithdrawFence[], key?: string): string[] {
  if (key !== undefined) store.statements.forgetKey.run(key)
  return rows.filter((row) => !withdrawUnstarted(store, row)).map(({ id }) => id)
}

/**
 * Withdraws one job of a batch unless it has started or ended. Goes by the attempt and not by the nonce: the
 * job's own job message may have been confirmed before the message of another job was refused, or a scheduled
 * job may have become due.
 */
function withdrawUnstarted(store: Store, { id, generation }: WithdrawFence): boolean {
  const row = toJobRow(store.statements.find.get(id))
  if (!row || isErased(row.state) || isTerminal(row.state)) return false
  const { changes } = store.statements.withdrawUnstarted.run(id, generation, row.state)
  if (changes !== 1) return false
  store.counter.moved(row.queue, row.state, null)
  store.notes.forget(id)
  store.traffic.note.withdrawn(row.queue, store.wall())
  store.counter.left(row.queue, row)
  freed(store, row, false)
  return true
}

/** Makes a pending job `available`, or `scheduled` if its time is still ahead. */
export function activate(
  store: Store,
  id: string,
  { now, wall, cause }: { now: number; wall: number; cause: Cause },
): JobRow | Stale {
  const lineTo = (state: JobState) => historyLine(now, state, 0, null, cause)
  const lines = [lineTo('available'), lineTo('scheduled')] as const
  const job = toJobRow(store.statements.activate.get(id, now, wall, store.nonces.next(), ...lines))
  if (!job) return staleOf(store, id)
  store.counter.moved(job.queue, 'pending', job.state === 'scheduled' ? 'scheduled' : 'available')
  return inTurn(store, job)
}
