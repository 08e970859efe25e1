/** The `unique` policies of jobs, on SQLite: who holds a key. */
import type { Cause } from '../../../job/history/changes.ts'
import { JOB_STATES, type JobRow, type NewJob } from '../../../job/job.ts'
import type { EnqueueTerms, Inserted, KeyHolder } from '../../enqueued.ts'
import * as shared from '../../writes/unique.ts'
import { type Admission, type KeyHolders, type KeyQuery, ROOM } from '../../writes/unique.ts'
import type { Protect } from '../commit/group-commit.ts'
import { onlyRow } from '../sql/driver.ts'
import { toJobRows } from '../sql/rows.ts'
import type { Holders, NamedStates } from '../sql/unique.ts'
import type { Store } from '../state/store.ts'
import { cancelJob } from './cancel.ts'
import { enqueue, mayCrowd } from './insert.ts'

/**
 * Stores one job as a PUSH does, by its `unique` policy (OJS unique jobs). Inside a write. `protect`: given
 * if the write is not protected yet; called before the first cancel. On `duplicate`, the caller must undo a
 * protected write (`TakenBack`), because jobs may have been cancelled.
 */
export function admit(
  store: Store,
  job: NewJob,
  now: number,
  { isUnsettled, cause }: Pick<EnqueueTerms, 'isUnsettled' | 'cause'>,
  protect?: Protect,
  room = ROOM,
): Inserted {
  if (job.unique === null) return enqueue(store, job, now, cause)
  const admission = admissionOf(store, now, cause, protect)
  return shared.admit(admission, job, { now, cause, isUnsettled }, room)
}

function admissionOf(
  store: Store,
  now: number,
  cause: Cause | undefined,
  protect: Protect | undefined,
): Admission {
  let isCrowded = false
  return {
    mayReplace: store.workflows.mayReplace,
    holders: (key) => {
      const keyed = store.recentKeys.find(key)
      isCrowded = mayCrowd(keyed)
      // Usually no row has the key, and to look for those that count costs many times as much.
      return holdersOf(store, keyed.seqs.length > 0 || keyed.hasCrowd)
    },
    enqueue: (job) => enqueue(store, job, now, cause, isCrowded),
    cancel: (id, why) => cancelJob(store, id, now, why),
    protect,
  }
}

/**
 * The job that has the unique key of a dead letter by now, which must not be revived then; null: none. Its key is
 * in the column `unique_key`.
 */
export function rivalOf(
  store: Store,
  row: JobRow,
  now: number,
): { existing: KeyHolder; uniqueKey: string } | null {
  const { key } = store.statements.uniqueKey.get(row.id) ?? { key: null }
  return key === null ? null : shared.rivalOf(holdersOf(store, true), key, row, now)
}

function holdersOf(store: Store, mayExist: boolean): KeyHolders {
  const { statements, keptKeys } = store
  return {
    mayExist,
    find: (query) => toJobRows(statements.holdersOfKey.all(...parametersOf(store, query))),
    sizeOf: (query) => onlyRow(statements.sizeOfHolders.get(...parametersOf(store, query))),
    pruned: (query, now) => keptKeys.find(query, now),
  }
}

function parametersOf(store: Store, query: KeyQuery): Holders {
  const { key, states, createdAfter, besides, limit } = query
  const named = JOB_STATES.map((_, i) => states[i] ?? null) as NamedStates
  const wall = states.includes('discarded') ? null : store.wall()
  const seqs = JSON.stringify(store.recentKeys.find(key).seqs)
  return [key, createdAfter, besides, limit, ...named, wall, seqs]
}
