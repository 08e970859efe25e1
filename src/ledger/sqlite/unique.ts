import { JOB_STATES, type JobRow, type JobState, type NewJob, type Unique } from '../../job/job.ts'
import { atTimeOf, replaceableStates, storedTerms } from '../../job/unique.ts'
import type { EnqueueTerms, Inserted } from '../enqueued.ts'
import type { Cancelled } from '../ledger.ts'
import { cancelJob } from './cancel.ts'
import { onlyRow } from './driver.ts'
import { enqueue } from './enqueue.ts'
import type { Protect } from './group-commit.ts'
import { toJobRows } from './rows.ts'
import type { Store } from './store.ts'
import type { Holders, NamedStates } from './unique-statements.ts'

/** What one PUSH may cancel: so many, which are so large together. */
export interface Room {
  jobs: number
  bytes: number
}

/** More would hold up every other write, and all of them are in the heap at once. */
export const ROOM: Readonly<Room> = { jobs: 100, bytes: 32 * 1024 * 1024 }

/**
 * One job as a PUSH stores it, by its `unique` policy (ojs-digest §5.3). Inside a write, which the
 * caller takes back on `duplicate` if it was protected. `protect`: of a write that is not yet.
 */
export function admit(
  store: Store,
  job: NewJob,
  now: number,
  terms: Pick<EnqueueTerms, 'isUnsettled'>,
  protect?: Protect,
  room = ROOM,
): Inserted {
  const { unique } = job
  if (unique === null) return enqueue(store, job, now)
  if (store.statements.isKeyKnown.get(unique.key) === undefined) return enqueue(store, job, now)
  const isReplacing = unique.onConflict.startsWith('replace')
  // What has ended cannot be replaced, and is not in the way.
  const states = isReplacing ? replaceableStates(unique.states) : unique.states
  const all = { key: unique.key, states, periodMs: unique.periodMs, limit: room.jobs + 1, now }
  const mayReplace = isReplacing && store.workflows.mayReplace && hasRoom(store, all, room)
  const query = mayReplace ? all : { ...all, limit: 1 }
  const found = holders(store, query)
  const [first] = found
  if (first === undefined) return enqueue(store, job, now)
  const unsettled = found.find(({ id }) => terms.isUnsettled?.(id))
  if (unsettled) return { outcome: 'unsettled', id: unsettled.id }
  if (mayReplace) {
    protect?.()
    return replace(store, job, unique, found, query)
  }
  return unique.onConflict === 'ignore'
    ? { outcome: 'existing', job: first }
    : { outcome: 'conflict', existing: first }
}

/**
 * The job whose key a dead letter would take if it came back to life. Its policy is in its envelope,
 * its key in a column that nobody else reads.
 */
export function rivalOf(
  store: Store,
  row: JobRow,
  now: number,
): { existing: JobRow; uniqueKey: string } | null {
  const { key } = store.statements.uniqueKey.get(row.id) ?? { key: null }
  if (key === null) return null
  const { states, periodMs } = storedTerms(row.envelope)
  const [existing] = holders(store, { key, states, periodMs, besides: row.id, limit: 1, now })
  return existing ? { existing, uniqueKey: key } : null
}

function replace(
  store: Store,
  job: NewJob,
  { onConflict }: Unique,
  found: readonly JobRow[],
  query: KeyQuery,
): Inserted {
  const { now } = query
  const cancelled: Cancelled[] = []
  // The end of a step may begin another with the same key: that one is in the way now.
  for (let inTheWay = found; inTheWay.length > 0; inTheWay = holders(store, query)) {
    for (const { id } of inTheWay) {
      const done = cancelJob(store, id, now)
      if (done !== 'stale') cancelled.push(done)
    }
  }
  const scheduled = found.find(({ state }) => state === 'scheduled')
  const isTimeKept = onConflict === 'replace_except_schedule' && scheduled !== undefined
  const placed = isTimeKept ? atTimeOf(scheduled, job) : job
  const stored = enqueue(store, placed, now)
  return stored.outcome === 'duplicate'
    ? stored
    : { ...stored, replacing: { cancelled, job: placed } }
}

/** Which holders of a key are in the way. */
interface KeyQuery {
  key: string
  states: readonly JobState[]
  periodMs: number | null
  /** Not this job. */
  besides?: string
  limit: number
  now: number
}

function hasRoom(store: Store, query: KeyQuery, room: Room): boolean {
  const { sizeOfHolders } = store.statements
  const { jobs, bytes } = onlyRow(sizeOfHolders.get(...parametersOf(store, query)))
  if (jobs > room.jobs) return false
  // A single one always fits, but for a batch that has replaced so much already.
  return bytes <= room.bytes || (jobs === 1 && room.bytes === ROOM.bytes)
}

/** Jobs with this key that are in the way. Rows that are erased are in no state that a policy can name. */
function holders(store: Store, query: KeyQuery): JobRow[] {
  return toJobRows(store.statements.holdersOfKey.all(...parametersOf(store, query)))
}

function parametersOf(store: Store, query: KeyQuery): Holders {
  const { key, states, periodMs, besides = '', limit, now } = query
  const createdAfter = periodMs === null ? Number.MIN_SAFE_INTEGER : now - periodMs
  const named = JOB_STATES.map((_, i) => states[i] ?? null) as NamedStates
  const wall = states.includes('discarded') ? null : store.workflows.sources.wall()
  return [key, createdAfter, besides, limit, ...named, wall]
}
