/** PUSH and PUSH batch, by the `unique` policies of the jobs; and the keys of dead letters that are retried. */
import { isTerminal, type NewJob } from '../../../job/job.ts'
import type { ActTerms } from '../../bulk.ts'
import type { EnqueueTerms, Inserted, InsertedAll } from '../../enqueued.ts'
import { keptHolder } from '../../writes/kept-keys.ts'
import { answerOf, unlessRemembered } from '../../writes/remembered.ts'
import { TakenBack } from '../../writes/taken-back.ts'
import {
  type Admission,
  admit,
  admitAll,
  conflictQuery,
  forgetJobMessages,
  isAdmitted,
  type KeyHolders,
  type KeyQuery,
  ROOM_TOGETHER,
  type Room,
  rivalQuery,
} from '../../writes/unique.ts'
import type { Draft, Wants } from '../group/draft.ts'
import type { Memory } from '../group/memory.ts'
import type { HolderQuery } from '../group/unique-keys.ts'
import { newLines } from '../keyed/lines.ts'
import { keysOf, keyWanted } from '../records/idempotency.ts'
import { cancelJob } from './end.ts'
import { enqueue, linkRetry } from './insert.ts'

/** `wall`: fixed when the write is requested, as it runs any number of times. */
export interface AdmitTerms extends EnqueueTerms {
  now: number
  wall: number
  /** The key of the workflow's node whose job it is. */
  step?: string
}

/** What the insert of these jobs reads. */
export function wantsOf(
  jobs: readonly NewJob[],
  terms: AdmitTerms,
  { schema, memory }: { schema: string; memory: Memory },
): Wants {
  const { retryOf, request } = terms
  const ids = [...jobs.map(({ id }) => id), ...(retryOf === undefined ? [] : [retryOf])]
  const lines = newLines(schema, jobs)
  const holders = conflictsOf(jobs, terms)
  const keptKeys = memory.keptKeys === 0 ? [] : holders.map(({ key }) => key)
  const keyed = holders.length > 0 && { holders, keptKeys }
  const sides = [...(lines?.sides ?? []), ...(request ? keyWanted(request).sides : [])]
  return { ids, ...keyed, ...(lines && { asked: lines.asked ?? [] }), sides }
}

function conflictsOf(jobs: readonly NewJob[], { now, wall }: AdmitTerms): HolderQuery[] {
  return jobs.flatMap(({ unique }) => unique ?? []).map((one) => at(wall, conflictQuery(one, now)))
}

function at(wall: number, query: KeyQuery): HolderQuery {
  return { ...query, wall: query.states.includes('discarded') ? null : wall }
}

/** Stores one job by its policy. On `duplicate`, the caller must take the write back. */
export function admitOne(draft: Draft, job: NewJob, terms: AdmitTerms): Inserted {
  return admit(admissionOf(draft, terms), job, terms)
}

/** PUSH of one job. */
export function pushOne(draft: Draft, job: NewJob, terms: AdmitTerms): Inserted {
  return unlessRemembered(
    keysOf(draft),
    { request: terms.request, now: terms.now },
    () => insertOne(draft, job, terms),
    (inserted) => (isAdmitted(inserted) ? answerOf([job], [inserted]) : null),
  )
}

function insertOne(draft: Draft, job: NewJob, terms: AdmitTerms): Inserted {
  const inserted = admitOne(draft, job, terms)
  // Jobs may have been cancelled to be replaced before the id was found taken.
  if (inserted.outcome === 'duplicate') throw new TakenBack(inserted)
  const { retryOf } = terms
  if (retryOf !== undefined && inserted.outcome === 'inserted') linkRetry(draft, retryOf, job.id)
  return inserted
}

/** PUSH batch: all or none. */
export function pushMany(draft: Draft, jobs: readonly NewJob[], terms: AdmitTerms): InsertedAll {
  return unlessRemembered(
    keysOf(draft),
    { request: terms.request, now: terms.now },
    () => insertMany(draft, jobs, terms),
    ({ stored }) => answerOf(jobs, stored),
  )
}

function insertMany(
  draft: Draft,
  jobs: readonly NewJob[],
  terms: AdmitTerms,
): Extract<InsertedAll, { outcome: 'inserted' }> {
  draft.lookUp(jobs.map(({ id }) => id))
  readAhead(draft, conflictsOf(jobs, terms))
  const admission = admissionOf(draft, terms)
  const stored = admitAll(jobs, (job, room) => admit(admission, job, terms, room))
  forgetJobMessages(jobs, stored, ({ id }) => {
    const row = draft.row(id)
    if (row !== null) draft.change(row, { messageOut: false })
  })
  return { outcome: 'inserted', stored }
}

function admissionOf(draft: Draft, { now, wall, cause, step }: AdmitTerms): Admission {
  return {
    mayReplace: draft.mayReplace,
    holders: () => keyHolders(draft, wall),
    enqueue: (job) => enqueue(draft, job, now, cause, step),
    cancel: (id, why) => cancelJob(draft, id, now, why),
  }
}

/** The holders of any key. */
export function keyHolders(draft: Draft, wall: number): KeyHolders {
  return {
    mayExist: true,
    find: (query) => {
      const ids = draft.holders(at(wall, query)).map(({ id }) => id)
      draft.require({ ids })
      return draft.jobs(draft.rows(ids))
    },
    sizeOf: (query) => {
      const holders = draft.holders(at(wall, query))
      return { jobs: holders.length, bytes: holders.reduce((sum, { bytes }) => sum + bytes, 0) }
    },
    pruned: (query, now) => {
      const kept = draft.keptKeys(query.key).filter(({ until }) => until > now)
      return keptHolder(kept, query)
    },
  }
}

/** Before jobs are retried: looks all of their keys up at once. */
export function lookUpRivals(draft: Draft, ids: readonly string[], terms: ActTerms): void {
  const keyed = draft.rows(ids).filter(({ uniqueKey, state }) => uniqueKey && isTerminal(state))
  if (keyed.length === 0) return
  const queries = draft
    .jobs(keyed)
    .map((job, i) => rivalQuery(keyed[i]?.uniqueKey ?? '', job, terms.now))
  readAhead(
    draft,
    queries.map((query) => at(terms.wall, query)),
  )
}

/** Loads at once what else would be loaded for one job after the other: the holders, and their texts. */
function readAhead(draft: Draft, queries: readonly HolderQuery[]): void {
  const keptKeys = draft.memory.keptKeys === 0 ? [] : queries.map(({ key }) => key)
  draft.require({ holders: queries, keptKeys })
  const left: Room = { ...ROOM_TOGETHER }
  const ids: string[] = []
  for (const { id, bytes } of queries.flatMap((query) => draft.holders(query))) {
    if (left.jobs === 0 || left.bytes < bytes) break
    left.jobs -= 1
    left.bytes -= bytes
    ids.push(id)
  }
  draft.require({ ids })
}
