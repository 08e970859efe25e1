/** Stores a job by its `unique` policy: reject, ignore or replace the holders of its key. */
import type { Cause } from '../../job/history/changes.ts'
import type { JobRow, JobState, NewJob, Unique } from '../../job/job.ts'
import { isStale, type Stale } from '../../job/stale.ts'
import { atTimeOf, replaceableStates, storedTerms } from '../../job/unique.ts'
import { compare } from '../../job/values/canonical-json.ts'
import type { Cancelled } from '../ended.ts'
import type { Admitted, Enqueued, Inserted, KeyHolder } from '../enqueued.ts'
import { TakenBack } from './taken-back.ts'

/** What one PUSH may replace: so many jobs, with so many bytes in all. */
export interface Room {
  jobs: number
  bytes: number
}

/** The limit for one PUSH: more would block other writes, and the replaced jobs are in memory at once. */
export const ROOM: Readonly<Room> = { jobs: 100, bytes: 32 * 1024 * 1024 }

/** What one batch may replace: each cancel costs as much as an insert, and all of them are one write. */
export const ROOM_TOGETHER: Readonly<Room> = { jobs: 1_000, bytes: 64 * 1024 * 1024 }

/**
 * Selects the jobs that hold a key and conflict with the policy: in one of `states`, created after
 * `createdAfter`. Without waiting jobs whose `expires_at` is past, which expiry is about to discard; with them
 * if the policy names `discarded`. No erased rows: a policy cannot name their state.
 */
export interface KeyQuery {
  key: string
  states: readonly JobState[]
  createdAfter: number
  /** An id to leave out; '': none. */
  besides: string
  limit: number
}

/** The holders of one key, inside a write. Each look-up sees what the write has changed. */
export interface KeyHolders {
  /** False: surely no row has the key. */
  mayExist: boolean
  find(query: KeyQuery): JobRow[]
  /** The number and the size of the rows that `find` would return, without reading them. */
  sizeOf(query: KeyQuery): Room
  /** Of the keys that were kept when retention deleted their jobs. */
  pruned(query: KeyQuery, now: number): KeyHolder | undefined
}

/** What `admit` does, inside a write. */
export interface Admission {
  /** False: a chain of replaced workflow steps has become too long. */
  mayReplace: boolean
  holders(key: string): KeyHolders
  enqueue(job: NewJob): Enqueued
  cancel(id: string, cause: Cause): Cancelled | Stale
  /** Called before the first cancel: from then on the write cannot be undone without help. */
  protect?: (() => void) | undefined
}

interface AdmitTerms {
  now: number
  cause?: Cause | undefined
  isUnsettled?: ((id: string) => boolean) | undefined
}

/** Stores one job as a PUSH does. On `duplicate`, the caller must undo the write, if it was to be protected. */
export function admit(
  admission: Admission,
  job: NewJob,
  { now, cause, isUnsettled }: AdmitTerms,
  room = ROOM,
): Inserted {
  const { unique } = job
  if (unique === null) return admission.enqueue(job)
  const isReplacing = isReplacement(unique)
  const holders = admission.holders(unique.key)
  const one = { ...conflictQuery(unique, now), limit: 1 }
  const enqueueIfFree = (): Inserted => {
    const existing = isReplacing ? undefined : holders.pruned(one, now)
    return existing ? { outcome: 'conflict', existing } : admission.enqueue(job)
  }
  if (!holders.mayExist) return enqueueIfFree()
  const all = { ...one, limit: room.jobs + 1 }
  const mayReplace = isReplacing && admission.mayReplace && hasRoom(holders.sizeOf(all), room)
  const query = mayReplace ? all : one
  const found = oldestFirst(holders.find(query))
  const [first] = found
  if (first === undefined) return enqueueIfFree()
  const unsettled = found.find(({ id }) => isUnsettled?.(id))
  if (unsettled) return { outcome: 'unsettled', id: unsettled.id }
  const late = mayReplace ? found.find((replaced) => takesTooLate(job, replaced)) : undefined
  if (late) return { outcome: 'conflict', existing: late }
  if (mayReplace) return replace(admission, job, { unique, found, query, cause, holders })
  return unique.onConflict === 'ignore'
    ? { outcome: 'existing', job: first }
    : { outcome: 'conflict', existing: first }
}

function isReplacement({ onConflict }: Unique): boolean {
  return onConflict.startsWith('replace')
}

/** With the time of the job that it replaces, it would be expired before it may run. */
function takesTooLate({ unique, expiresAt }: NewJob, { state, dueAt }: JobRow): boolean {
  const isTaken = unique?.onConflict === 'replace_except_schedule' && state === 'scheduled'
  return isTaken && expiresAt !== null && dueAt !== null && expiresAt <= dueAt
}

/** Selects the jobs that conflict with a new one: as many as it may replace, or the first. */
export function conflictQuery(unique: Unique, now: number): KeyQuery {
  const isReplacing = isReplacement(unique)
  // A job that has ended cannot be replaced, and does not conflict with one that replaces.
  const states = isReplacing ? replaceableStates(unique.states) : unique.states
  return { ...queryOf(unique, now), states, limit: isReplacing ? ROOM.jobs + 1 : 1 }
}

/** Whatever the order of the ledger's index is. */
function oldestFirst(jobs: readonly JobRow[]): readonly JobRow[] {
  if (jobs.length < 2) return jobs
  return jobs.toSorted((a, b) => a.createdAt - b.createdAt || compare(a.id, b.id))
}

interface Replacing {
  unique: Unique
  found: readonly JobRow[]
  query: KeyQuery
  cause: Cause | undefined
  holders: KeyHolders
}

function replace(
  admission: Admission,
  job: NewJob,
  { unique, found, query, cause, holders }: Replacing,
): Inserted {
  admission.protect?.()
  const cancelled: Cancelled[] = []
  // The cancelled job may be a workflow step whose end begins another job with the same key: cancel that too.
  for (let inTheWay = found; inTheWay.length > 0; inTheWay = oldestFirst(holders.find(query))) {
    for (const { id } of inTheWay) {
      const done = admission.cancel(id, { ...cause, reason: 'replaced' })
      if (!isStale(done)) cancelled.push(done)
    }
  }
  const scheduled = found.find(({ state }) => state === 'scheduled')
  const isTimeKept = unique.onConflict === 'replace_except_schedule' && scheduled !== undefined
  const placed = isTimeKept ? atTimeOf(scheduled, job) : job
  const stored = admission.enqueue(placed)
  return stored.outcome === 'duplicate'
    ? stored
    : { ...stored, replacing: { cancelled, job: placed } }
}

function hasRoom({ jobs, bytes }: Room, room: Room): boolean {
  if (jobs > room.jobs) return false
  // A single job always fits, except into the rest of a batch that has replaced much already.
  return bytes <= room.bytes || (jobs === 1 && room.bytes === ROOM.bytes)
}

/**
 * The job that has the unique `key` of a dead letter by now, which must not be revived then; null: none. The
 * dead letter's policy is in its envelope.
 */
export function rivalOf(
  holders: KeyHolders,
  key: string,
  { id, envelope }: Pick<JobRow, 'id' | 'envelope'>,
  now: number,
): { existing: KeyHolder; uniqueKey: string } | null {
  const query = rivalQuery(key, { id, envelope }, now)
  const existing = holders.find(query)[0] ?? holders.pruned(query, now)
  return existing ? { existing, uniqueKey: key } : null
}

/** Selects that job. */
export function rivalQuery(
  key: string,
  { id, envelope }: Pick<JobRow, 'id' | 'envelope'>,
  now: number,
): KeyQuery {
  return { ...queryOf({ key, ...storedTerms(envelope) }, now), besides: id, limit: 1 }
}

function queryOf(
  { key, states, periodMs }: Pick<Unique, 'key' | 'states' | 'periodMs'>,
  now: number,
): Omit<KeyQuery, 'limit'> {
  // Where the period begins.
  const createdAfter = periodMs === null ? Number.MIN_SAFE_INTEGER : now - periodMs
  return { key, states, createdAfter, besides: '' }
}

/** Stores the jobs in order, each seeing the changes of those before it; or takes all of them back. */
export function admitAll(
  jobs: readonly NewJob[],
  admitOne: (job: NewJob, room: Room) => Inserted,
): Admitted[] {
  const left = { ...ROOM_TOGETHER }
  return jobs.map((job, index) => {
    const admitted = admitOne(job, smallerOf(left, ROOM))
    if (!isAdmitted(admitted)) throw new TakenBack({ ...admitted, index })
    for (const { job: replaced } of cancelledBy(admitted)) {
      left.jobs -= 1
      left.bytes -= Buffer.byteLength(replaced.envelope) + Buffer.byteLength(replaced.errors ?? '')
    }
    return admitted
  })
}

function smallerOf(one: Room, other: Room): Room {
  return { jobs: Math.min(one.jobs, other.jobs), bytes: Math.min(one.bytes, other.bytes) }
}

export function isAdmitted(inserted: Inserted): inserted is Admitted {
  return inserted.outcome === 'inserted' || inserted.outcome === 'existing'
}

/** The jobs that the new job replaced. */
function cancelledBy(admitted: Admitted): Cancelled[] {
  return (admitted.outcome === 'inserted' && admitted.replacing?.cancelled) || []
}

/**
 * Clears `messageOut` (`clear`) of jobs that a later job of the same batch replaced: they never had a job
 * message. The outcomes say so too.
 */
export function forgetJobMessages(
  jobs: readonly NewJob[],
  stored: readonly Admitted[],
  clear: (job: Pick<JobRow, 'id' | 'generation'>) => void,
): void {
  const own = new Set(jobs.map(({ id }) => id))
  for (const cancelled of stored.map(cancelledBy))
    for (const [i, replaced] of cancelled.entries()) {
      if (!own.has(replaced.job.id)) continue
      clear(replaced.job)
      cancelled[i] = { ...replaced, job: { ...replaced.job, messageOut: false } }
    }
}
