/** Finds jobs, counts them, and pages through their ids. */
import type { Carry, JobState } from '../../../job/job.ts'
import {
  carryNeedle,
  envelopeNeedle,
  errorNeedle,
  hasErrorType,
  hasTags,
  hasTexts,
  type JobFilter,
  meets,
} from '../../../job/search/filter.ts'
import { partOfHeap } from '../../../memory.ts'
import { startNow } from '../../../slices.ts'
import type { DeadLetterStats } from '../../dead-letters.ts'
import type {
  Counted,
  Found,
  FoundId,
  FoundJob,
  JobOrder,
  JobSearch,
  OldestJobs,
  Place,
  SearchPage,
} from '../../search.ts'
import type { Access } from '../commit/access.ts'
import { changed, toStanding } from '../sql/rows.ts'
import type { CheckedRow, Key } from '../sql/search.ts'
import type { Store } from '../state/store.ts'
import { statsOfDead } from './dead-letter-stats.ts'
import { oldestJobs } from './oldest.ts'
import {
  byCreation,
  byDeath,
  byDueTime,
  countOf,
  createdBetween,
  type Direction,
  deadIn,
  hasOwnIndex,
  isCounted,
  isCountOfDead,
  needsRow,
  orderOf,
  rangesOf,
  type Source,
} from './sources.ts'

/** Of a list that has to compare its rows one by one. */
const MAX_COMPARED = 100_000
/** A number is not worth as much. */
const MAX_COMPARED_FOR_COUNT = 10_000
/** Of a list in an order without an index: so many jobs are put in order. */
const MAX_SORTED = 10_000
/** Bytes of envelopes that one search reads at most: jobs may be megabytes. */
const MAX_BYTES = 512 * 1024 * 1024
/** A page of `ids` ends after so many rows, so that its caller has its turn. */
const MAX_LOOKED_FOR_IDS = 20_000
/** Keys that are taken before the search may pause. */
const KEYS_PER_STEP = 64
/** Characters of the texts of one page. */
const MAX_LISTED_TEXT = partOfHeap(1 / 32, 64 * 1024 * 1024)

/** What `mayMatch` compares a row with. */
type Needles =
  Parameters<Store['statements']['mayMatch']['get']> extends [number, ...infer N] ? N : never

/** What one search has looked at. */
interface Looked {
  needles: Needles
  rows: number
  bytes: number
  isCut: boolean
}

/** How many of the keys that match are wanted, after which. */
interface Wanted {
  offset: number
  limit: number
  mostCompared?: number
}

export class SqliteSearch implements JobSearch {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  page(filter: JobFilter, page: SearchPage): Promise<Found> {
    return this.#run(findPage(this.#store, filter, page))
  }

  count(filter: JobFilter, atMost: number): Promise<Counted> {
    return this.#run(countJobs(this.#store, filter, atMost))
  }

  ids(filter: JobFilter, after: Place | null, limit: number): ReturnType<JobSearch['ids']> {
    return this.#run(findIds(this.#store, filter, after, limit))
  }

  deadLetterStats(queues: readonly string[]): Promise<DeadLetterStats> {
    return this.#run(statsOfDead(this.#store, queues))
  }

  oldest(
    queues: readonly string[],
    now: number,
    wall: number,
  ): Promise<ReadonlyMap<string, OldestJobs>> {
    return this.#run(oldestJobs(this.#store, queues, now, wall))
  }

  /** Every step reads committed rows: no write's transaction is open between two turns. */
  async #run<T>(work: Generator<void, T>): Promise<T> {
    return await this.#access.read(() => startNow(reading(this.#access, work)))
  }
}

/** The same work, each step of which is a read of the ledger: 503 when that is closed or cannot be read. */
function* reading<T>(access: Access, work: Generator<void, T>): Generator<void, T> {
  for (;;) {
    const step = access.read(() => work.next())
    if (step.done) return step.value
    yield
  }
}

function* findPage(store: Store, filter: JobFilter, page: SearchPage): Generator<void, Found> {
  const { isAscending, after, order } = page
  const direction = { isAscending, after: after && { at: after[0], seq: after[1] } }
  const looked: Looked = { needles: needlesOf(filter), rows: 0, bytes: 0, isCut: false }
  const own = ownOrder(store, filter, order, direction)
  const isSorted = order !== 'created_at' && own === null
  const source = isSorted
    ? yield* sorted(store, filter, page, looked)
    : (own ?? (yield* byCreation(store, filter, direction)))
  const keys = yield* matching(store, filter, source, looked, {
    offset: page.offset,
    limit: page.limit + 1,
  })
  yield
  return pageFrom(store, filter, keys, page, looked)
}

/** The list in an order that has an index of its own. */
function ownOrder(
  store: Store,
  filter: JobFilter,
  order: JobOrder,
  direction: Direction,
): Source | null {
  if (order === 'discarded_at') {
    return hasOwnIndex(filter) ? null : byDeath(store, filter, direction)
  }
  return order === 'scheduled_at' ? byDueTime(store, filter, direction) : null
}

/** Takes the keys of the jobs that match: skips `offset` of them, and returns up to `limit`. */
function* matching(
  store: Store,
  filter: JobFilter,
  { merge, isRough, isCut }: Source,
  looked: Looked,
  { offset, limit, mostCompared = MAX_COMPARED }: Wanted,
): Generator<void, Key[]> {
  looked.isCut ||= isCut
  const keys: Key[] = []
  let skipped = 0
  for (let key = merge.next(); key !== null; key = merge.next()) {
    looked.rows += 1
    const isFound = !isRough || isMatch(store, filter, key.seq, looked)
    if (isFound && skipped < offset) skipped += 1
    else if (isFound) keys.push(key)
    if (keys.length >= limit) return keys
    if (isRough && (looked.rows >= mostCompared || looked.bytes >= MAX_BYTES)) {
      looked.isCut = true
      return keys
    }
    if (isRough || looked.rows % KEYS_PER_STEP === 0) yield
  }
  return keys
}

function isMatch(store: Store, filter: JobFilter, seq: number, looked: Looked): boolean {
  const found = store.statements.mayMatch.get(seq, ...looked.needles)
  looked.bytes += found?.bytes ?? 0
  return found?.isHit === 1 && isMet(filter, checked(store, filter, seq))
}

function needlesOf({ workerId, enqueued, ended, text }: JobFilter): Needles {
  return [
    workerId,
    enqueued.from ?? Number.MIN_SAFE_INTEGER,
    enqueued.until ?? Number.MAX_SAFE_INTEGER,
    ended.from,
    ended.until,
    carryNeedle(text),
    errorNeedle(text),
    envelopeNeedle(text),
  ]
}

function checked({ statements }: Store, { text }: JobFilter, seq: number): CheckedRow | undefined {
  const { tags, errorType, meta, args } = text
  return statements.checkedRow.get(
    seq,
    tags.length > 0 ? 1 : 0,
    errorType === null ? 0 : 1,
    meta.length > 0 || args !== undefined ? 1 : 0,
  )
}

function isMet(filter: JobFilter, row: CheckedRow | undefined): boolean {
  if (row === undefined || isErasedRow(row) || !meets(filter, row)) return false
  const { text } = filter
  if (!hasTags(text, row.carry) || !hasErrorType(text, row.error)) return false
  return row.envelope === null || hasTexts(text, row.envelope)
}

function isErasedRow({ state }: { state: string }): boolean {
  return state === 'withdrawn'
}

/** The newest jobs that match, in another order than that of their creation. */
function* sorted(
  store: Store,
  filter: JobFilter,
  { order, isAscending, after }: SearchPage,
  looked: Looked,
): Generator<void, Source> {
  const newest: Direction = { isAscending: false, after: null }
  const source = yield* byCreation(store, filter, newest)
  const found = yield* matching(store, filter, source, looked, { offset: 0, limit: MAX_SORTED + 1 })
  if (found.length > MAX_SORTED) looked.isCut = true
  const keys: Key[] = []
  for (const [i, { seq }] of found.slice(0, MAX_SORTED).entries()) {
    const row = store.statements.checkedRow.get(seq, 0, 0, 0)
    if (row) keys.push({ seq, at: sortValue(row, order, isAscending) })
    if (i % KEYS_PER_STEP === 0) yield
  }
  const isBefore = orderOf({ isAscending })
  const place = after && { at: after[0], seq: after[1] }
  const left = place === null ? keys : keys.filter((key) => isBefore(place, key))
  left.sort((a, b) => (isBefore(a, b) ? -1 : 1))
  return { merge: inMemory(left), isRough: false, isCut: source.isCut }
}

function inMemory(keys: readonly Key[]): Source['merge'] {
  let next = 0
  return { next: () => keys[next++] ?? null }
}

/** What a job is ordered by. A job without the value comes last in both directions. */
function sortValue(row: CheckedRow, order: JobOrder, isAscending: boolean): number {
  const last = isAscending ? Number.MAX_SAFE_INTEGER : Number.MIN_SAFE_INTEGER
  switch (order) {
    case 'priority':
      return row.priority
    case 'scheduled_at':
      return row.dueAt ?? last
    case 'updated_at':
    case 'discarded_at':
      return row.endedAt ?? Math.max(row.enqueuedAt, row.startedAt ?? row.enqueuedAt)
    case 'created_at':
      return row.createdAt
  }
}

function pageFrom(
  store: Store,
  filter: JobFilter,
  keys: readonly Key[],
  { limit, isWhole }: SearchPage,
  looked: Looked,
): Found {
  const shown = keys.slice(0, limit)
  const jobs: FoundJob[] = []
  let last: Key | undefined
  let text = 0
  for (const key of shown) {
    if (text >= MAX_LISTED_TEXT) break
    last = key
    // It may have changed since the search passed it.
    const row = checked(store, filter, key.seq)
    if (!isMet(filter, row)) continue
    const job = foundJob(store, key.seq, isWhole)
    text += job.whole ? textOf(job.whole) : (job.error?.length ?? 0)
    jobs.push(job)
  }
  const isMore = limit > 0 && (last !== keys.at(-1) || keys.length > limit)
  return {
    jobs,
    next: isMore && last ? [last.at, last.seq] : null,
    searched: looked.isCut ? looked.rows : null,
  }
}

function textOf({
  envelope,
  errors,
  result,
}: {
  envelope: string
  errors: string | null
  result: string | null
}) {
  return envelope.length + (errors?.length ?? 0) + (result?.length ?? 0)
}

function foundJob({ statements }: Store, seq: number, isWhole: boolean): FoundJob {
  const found = statements.foundRow.get(seq)
  const standing = toStanding(found)
  if (!found || !standing) throw new Error('bug: a row is gone inside one read')
  return {
    ...standing,
    carry: found.carry === null ? null : (JSON.parse(found.carry) as Carry),
    error: found.error,
    workflowId: found.workflowId,
    whole: isWhole ? changed(statements.rowOfSeq.get(seq)) : null,
  }
}

function* countJobs(store: Store, filter: JobFilter, atMost: number): Generator<void, Counted> {
  if (isCountOfDead(filter)) return { count: deadIn(store, filter.queues), isBound: false }
  if (isCounted(filter)) {
    return { count: countOf(store, filter.states, filter.queues), isBound: false }
  }
  if (!needsRow(filter)) return yield* countRanges(store, filter, atMost)
  const looked: Looked = { needles: needlesOf(filter), rows: 0, bytes: 0, isCut: false }
  const source = yield* byCreation(store, filter, { isAscending: false, after: null })
  const keys = yield* matching(store, filter, source, looked, {
    offset: 0,
    limit: atMost + 1,
    mostCompared: MAX_COMPARED_FOR_COUNT,
  })
  return { count: Math.min(keys.length, atMost), isBound: looked.isCut || keys.length > atMost }
}

function* countRanges(store: Store, filter: JobFilter, atMost: number): Generator<void, Counted> {
  const { from, until } = createdBetween(filter)
  const ranges: [string, JobState, string, 0 | 1][] = []
  const isCut = yield* rangesOf(store, filter, (range) => ranges.push(range))
  let count = 0
  for (const range of ranges) {
    count += store.statements.countRange.get(...range, from, until, atMost + 1 - count)?.count ?? 0
    if (count > atMost) return { count: atMost, isBound: true }
    yield
  }
  return { count, isBound: isCut }
}

function* findIds(
  store: Store,
  filter: JobFilter,
  after: Place | null,
  limit: number,
): Generator<void, { found: FoundId[]; next: Place | null }> {
  const direction = { isAscending: true, after: after && { at: after[0], seq: after[1] } }
  const { merge } = yield* byCreation(store, filter, direction)
  const found: FoundId[] = []
  const looked: Looked = { needles: needlesOf(filter), rows: 0, bytes: 0, isCut: false }
  for (let key = merge.next(); key !== null; key = merge.next()) {
    looked.rows += 1
    const isHit = isMatch(store, filter, key.seq, looked)
    const row = isHit ? checked(store, filter, key.seq) : undefined
    if (row) found.push({ id: row.id, place: [key.at, key.seq] })
    const isEnough =
      found.length >= limit || looked.rows >= MAX_LOOKED_FOR_IDS || looked.bytes >= MAX_BYTES
    if (isEnough) return { found, next: [key.at, key.seq] }
    yield
  }
  return { found, next: null }
}
