/** Stores a job by its `unique` policy: reject, ignore or replace the holders of its key. */
import type { Cause } from '../../../job/history/changes.ts'
import {
  JOB_STATES,
  type JobRow,
  type JobState,
  type NewJob,
  type Unique,
} from '../../../job/job.ts'
import { isStale } from '../../../job/stale.ts'
import { atTimeOf, replaceableStates, storedTerms } from '../../../job/unique.ts'
import type { EnqueueTerms, Inserted, KeyHolder } from '../../enqueued.ts'
import type { Cancelled } from '../../leases.ts'
import type { Protect } from '../commit/group-commit.ts'
import { onlyRow } from '../sql/driver.ts'
import { toJobRows } from '../sql/rows.ts'
import type { Holders, NamedStates } from '../sql/unique.ts'
import type { Store } from '../state/store.ts'
import { cancelJob } from './cancel.ts'
import { enqueue, mayCrowd } from './insert.ts'

/** What one PUSH may replace: so many jobs, with so many bytes in all. */
export interface Room {
  jobs: number
  bytes: number
}

/** The limit for one PUSH: more would block other writes, and the replaced jobs are in memory at once. */
export const ROOM: Readonly<Room> = { jobs: 100, bytes: 32 * 1024 * 1024 }

/**
 * Stores one job as a PUSH does, by its `unique` policy (OJS unique jobs). Inside a write. `protect`: given
 * if the write is not protected yet; called before the first cancel. On `duplicate`, the caller must undo a
 * protected write (`TakenBack`), because jobs may have been cancelled.
 */
export function admit(
  store: Store,
  job: NewJob,
  now: number,
  terms: Pick<EnqueueTerms, 'isUnsettled' | 'cause'>,
  protect?: Protect,
  room = ROOM,
): Inserted {
  const { unique } = job
  if (unique === null) return enqueue(store, job, now, terms.cause)
  const keyed = store.recentKeys.find(unique.key)
  const isReplacing = unique.onConflict.startsWith('replace')
  const enqueueIfFree = (isCrowded: boolean): Inserted => {
    const existing = isReplacing ? undefined : prunedHolder(store, unique, now)
    return existing
      ? { outcome: 'conflict', existing }
      : enqueue(store, job, now, terms.cause, isCrowded)
  }
  // Usually no row has the key, and to look for those that count costs many times as much.
  if (keyed.seqs.length === 0 && !keyed.hasCrowd) return enqueueIfFree(false)
  // A job that has ended cannot be replaced, and does not conflict with one that replaces.
  const states = isReplacing ? replaceableStates(unique.states) : unique.states
  const all = { key: unique.key, states, periodMs: unique.periodMs, limit: room.jobs + 1, now }
  const mayReplace = isReplacing && store.workflows.mayReplace && hasRoom(store, all, room)
  const query = mayReplace ? all : { ...all, limit: 1 }
  const found = holders(store, query)
  const [first] = found
  if (first === undefined) return enqueueIfFree(mayCrowd(keyed))
  const unsettled = found.find(({ id }) => terms.isUnsettled?.(id))
  if (unsettled) return { outcome: 'unsettled', id: unsettled.id }
  if (mayReplace) {
    protect?.()
    return replace(store, job, unique, found, query, terms.cause)
  }
  return unique.onConflict === 'ignore'
    ? { outcome: 'existing', job: first }
    : { outcome: 'conflict', existing: first }
}

/**
 * The job that has the unique key of a dead letter by now, which must not be revived then; null: none. The
 * dead letter's policy is in its envelope, its key in the column `unique_key`.
 */
export function rivalOf(
  store: Store,
  row: JobRow,
  now: number,
): { existing: KeyHolder; uniqueKey: string } | null {
  const { key } = store.statements.uniqueKey.get(row.id) ?? { key: null }
  if (key === null) return null
  const { states, periodMs } = storedTerms(row.envelope)
  const query = { key, states, periodMs, besides: row.id, limit: 1, now }
  const existing = holders(store, query)[0] ?? prunedHolder(store, query, now)
  return existing ? { existing, uniqueKey: key } : null
}

function replace(
  store: Store,
  job: NewJob,
  { onConflict }: Unique,
  found: readonly JobRow[],
  query: KeyQuery,
  cause: Cause | undefined,
): Inserted {
  const { now } = query
  const cancelled: Cancelled[] = []
  // The cancelled job may be a workflow step whose end begins another job with the same key: cancel that too.
  for (let inTheWay = found; inTheWay.length > 0; inTheWay = holders(store, query)) {
    for (const { id } of inTheWay) {
      const done = cancelJob(store, id, now, { ...cause, reason: 'replaced' })
      if (!isStale(done)) cancelled.push(done)
    }
  }
  const scheduled = found.find(({ state }) => state === 'scheduled')
  const isTimeKept = onConflict === 'replace_except_schedule' && scheduled !== undefined
  const placed = isTimeKept ? atTimeOf(scheduled, job) : job
  const stored = enqueue(store, placed, now, cause)
  return stored.outcome === 'duplicate'
    ? stored
    : { ...stored, replacing: { cancelled, job: placed } }
}

/** Selects the jobs that hold a key and conflict with the policy. */
interface KeyQuery {
  key: string
  states: readonly JobState[]
  periodMs: number | null
  /** An id to leave out. */
  besides?: string
  limit: number
  now: number
}

function hasRoom(store: Store, query: KeyQuery, room: Room): boolean {
  const { sizeOfHolders } = store.statements
  const { jobs, bytes } = onlyRow(sizeOfHolders.get(...parametersOf(store, query)))
  if (jobs > room.jobs) return false
  // A single job always fits, except into the rest of a batch that has replaced much already.
  return bytes <= room.bytes || (jobs === 1 && room.bytes === ROOM.bytes)
}

/** The jobs that conflict. No erased rows: a policy cannot name their state. */
function holders(store: Store, query: KeyQuery): JobRow[] {
  return toJobRows(store.statements.holdersOfKey.all(...parametersOf(store, query)))
}

/** The pruned job that conflicts: see `KeptKeys`. */
function prunedHolder(
  { keptKeys }: Store,
  { key, states, periodMs }: Omit<Unique, 'onConflict'>,
  now: number,
): KeyHolder | undefined {
  return keptKeys.find(key, states, createdAfter(periodMs, now), now)
}

function parametersOf(store: Store, query: KeyQuery): Holders {
  const { key, states, periodMs, besides = '', limit, now } = query
  const named = JOB_STATES.map((_, i) => states[i] ?? null) as NamedStates
  const wall = states.includes('discarded') ? null : store.wall()
  const seqs = JSON.stringify(store.recentKeys.find(key).seqs)
  return [key, createdAfter(periodMs, now), besides, limit, ...named, wall, seqs]
}

/** Where the period begins. */
function createdAfter(periodMs: number | null, now: number): number {
  return periodMs === null ? Number.MIN_SAFE_INTEGER : now - periodMs
}
