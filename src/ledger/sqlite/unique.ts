import { JOB_STATES, type JobRow, type JobState, type NewJob, type Unique } from '../../job/job.ts'
import { atTimeOf, replaceableStates, storedTerms } from '../../job/unique.ts'
import type { EnqueueTerms, Inserted } from '../enqueued.ts'
import type { Cancelled } from '../ledger.ts'
import { cancelJob } from './cancel.ts'
import { enqueue } from './enqueue.ts'
import type { Protect } from './group-commit.ts'
import { toJobRows } from './rows.ts'
import type { Store } from './store.ts'
import type { NamedStates } from './unique-statements.ts'

/** More than these are not cancelled by one PUSH: it would hold up every other write. */
export const MAX_REPLACED = 100

/**
 * One job as a PUSH stores it, by its `unique` policy (ojs-digest §5.3). Inside a write, which the
 * caller takes back on `duplicate` if it was protected. `protect`: of a write that is not yet.
 * `maxReplaced`: how many others it may cancel.
 */
export function admit(
  store: Store,
  job: NewJob,
  now: number,
  terms: Pick<EnqueueTerms, 'isUnsettled'>,
  protect?: Protect,
  maxReplaced = MAX_REPLACED,
): Inserted {
  const { unique } = job
  if (unique === null) return enqueue(store, job, now)
  const isReplacing = unique.onConflict.startsWith('replace')
  // What has ended cannot be replaced, and is not in the way.
  const states = isReplacing ? replaceableStates(unique.states) : unique.states
  const limit = isReplacing ? maxReplaced + 1 : 1
  const query = { key: unique.key, states, periodMs: unique.periodMs, limit, now }
  const found = holders(store, query)
  const [first] = found
  if (first === undefined) return enqueue(store, job, now)
  const unsettled = found.find(({ id }) => terms.isUnsettled?.(id))
  if (unsettled) return { outcome: 'unsettled', id: unsettled.id }
  if (isReplacing && found.length <= maxReplaced && store.workflows.mayReplace) {
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

/** Jobs with this key that are in the way. Rows that are erased are in no state that a policy can name. */
function holders(store: Store, query: KeyQuery): JobRow[] {
  const { key, states, periodMs, besides = '', limit, now } = query
  const { isKeyKnown, holdersOfKey } = store.statements
  if (isKeyKnown.get(key) === undefined) return []
  const createdAfter = periodMs === null ? Number.MIN_SAFE_INTEGER : now - periodMs
  const named = JOB_STATES.map((_, i) => states[i] ?? null) as NamedStates
  const wall = states.includes('discarded') ? null : store.workflows.sources.wall()
  return toJobRows(holdersOfKey.all(key, createdAfter, besides, limit, ...named, wall))
}
