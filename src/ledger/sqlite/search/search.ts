/** Finds jobs, counts them, and pages through their ids. */
import type { Carry, JobState } from '../../../job/job.ts'
import { ANY_JOB, type JobFilter } from '../../../job/search/filter.ts'
import { hasOwnIndex, isCounted, isCountOfDead, needsRow } from '../../../job/search/needs.ts'
import { startNow } from '../../../slices.ts'
import type { DeadLetterStats } from '../../dead-letters.ts'
import {
  MAX_COMPARED,
  MAX_COMPARED_AT_ONCE,
  MAX_LISTED_TEXT,
  MAX_LOOKED_FOR_IDS,
  MAX_SORTED,
} from '../../lists/limits.ts'
import {
  createdBetween,
  type Direction,
  inOrder,
  type Key,
  keyAt,
  lastValue,
} from '../../lists/order.ts'
import { PageKeys, type Wanted, wantedBy } from '../../lists/page-keys.ts'
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
import type { Store } from '../state/store.ts'
import { Comparison, sortKeys } from './comparison.ts'
import { statsOfDead } from './dead-letter-stats.ts'
import { oldestJobs } from './oldest.ts'
import {
  byCreation,
  byDeath,
  byDueTime,
  countOf,
  deadIn,
  rangesOf,
  type Source,
} from './sources.ts'

/** Work on many jobs goes on for minutes: it asks again and again, and nobody waits for its answers. */
const IDS_SLICE_MS = 2
/** Keys that are taken before the search may pause. */
const KEYS_PER_STEP = 64

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
    return this.#run(findIds(this.#store, filter, after, limit), IDS_SLICE_MS)
  }

  deadLetterStats(queues: readonly string[]): Promise<DeadLetterStats> {
    return this.#run(statsOfDead(this.#store, queues))
  }

  priorities(queue: string): ReturnType<JobSearch['priorities']> {
    return this.#run(prioritiesOf(this.#store, queue))
  }

  oldest(
    queues: readonly string[],
    now: number,
    wall: number,
  ): Promise<ReadonlyMap<string, OldestJobs>> {
    return this.#run(oldestJobs(this.#store, queues, now, wall))
  }

  /** Every step reads committed rows: no write's transaction is open between two turns. */
  async #run<T>(work: Generator<void, T>, sliceMs?: number): Promise<T> {
    return await this.#access.read(() => startNow(reading(this.#access, work), sliceMs))
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
  const direction = { isAscending, after: keyAt(after) }
  const own = ownOrder(store, filter, order, direction)
  const isSorted = order !== 'created_at' && own === null
  const source = isSorted
    ? yield* sorted(store, filter, page)
    : (own ?? (yield* byCreation(store, filter, direction)))
  const found = yield* matching(source, new Comparison(store, filter), wantedBy(page))
  yield
  const { jobs, next } = pageFrom(store, filter, found.keys, page)
  return { jobs, ...found.endOf(page, next, source) }
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
  { merge, isRough }: Source,
  comparison: Comparison,
  wanted: Wanted,
  mostCompared = MAX_COMPARED_AT_ONCE,
): Generator<void, PageKeys<Key>> {
  const taken = new PageKeys<Key>(wanted)
  for (;;) {
    const size = isRough
      ? Math.min(comparison.partSize, mostCompared - taken.passed)
      : KEYS_PER_STEP
    const part = take(merge, size)
    if (part.length === 0) return taken
    const rows = isRough ? comparison.matches(part) : null
    taken.add(part, rows === null ? part : part.filter(({ seq }) => rows.has(seq)))
    if (taken.left === 0) return taken
    if (isRough && (taken.passed >= mostCompared || comparison.isExhausted)) return taken.endEarly()
    yield
  }
}

function take(merge: Source['merge'], count: number): Key[] {
  const keys: Key[] = []
  while (keys.length < count) {
    const key = merge.next()
    if (key === null) break
    keys.push(key)
  }
  return keys
}

/** The newest jobs that match, in another order than that of their creation. */
function* sorted(
  store: Store,
  filter: JobFilter,
  { order, isAscending, after }: SearchPage,
): Generator<void, Source> {
  const newest: Direction = { isAscending: false, after: null }
  const source = yield* byCreation(store, filter, newest)
  const wanted = { offset: 0, limit: MAX_SORTED + 1 }
  const matches = yield* matching(source, new Comparison(store, filter), wanted, MAX_SORTED)
  const found = matches.keys.slice(0, MAX_SORTED)
  const last = lastValue({ isAscending })
  const keys: Key[] = []
  for (let i = 0; i < found.length; i += KEYS_PER_STEP) {
    keys.push(...sortKeys(store, found.slice(i, i + KEYS_PER_STEP), order, last))
    yield
  }
  const left = inOrder(keys, { isAscending, after: keyAt(after) })
  return { merge: inMemory(left), isRough: false, ...matches.sortedOf(source) }
}

function inMemory(keys: readonly Key[]): Source['merge'] {
  let next = 0
  return { next: () => keys[next++] ?? null }
}

function* prioritiesOf(
  store: Store,
  queue: string,
): Generator<void, { counts: ReadonlyMap<number, number>; searched: number | null }> {
  const filter: JobFilter = { ...ANY_JOB, queues: [queue], states: ['available'] }
  const { merge, isCut } = yield* byCreation(store, filter, { isAscending: true, after: null })
  const counts = new Map<number, number>()
  let searched = 0
  while (searched < MAX_COMPARED) {
    const part = take(merge, KEYS_PER_STEP)
    if (part.length === 0) return { counts, searched: isCut ? searched : null }
    searched += part.length
    for (const { at } of sortKeys(store, part, 'priority', 0)) {
      counts.set(at, (counts.get(at) ?? 0) + 1)
    }
    yield
  }
  return { counts, searched: merge.next() === null && !isCut ? null : searched }
}

function pageFrom(
  store: Store,
  filter: JobFilter,
  keys: readonly Key[],
  { limit, isWhole }: SearchPage,
): Pick<Found, 'jobs' | 'next'> {
  const shown = keys.slice(0, limit)
  // They may have changed since the search passed them.
  const rows = new Comparison(store, filter).matches(shown)
  const jobs: FoundJob[] = []
  let last: Key | undefined
  let text = 0
  for (const key of shown) {
    if (text >= MAX_LISTED_TEXT) break
    last = key
    if (!rows.has(key.seq)) continue
    const job = foundJob(store, key.seq, isWhole)
    text += job.whole ? textOf(job.whole) : (job.error?.length ?? 0)
    jobs.push(job)
  }
  const isMore = limit > 0 && (last !== keys.at(-1) || keys.length > limit)
  return { jobs, next: isMore && last ? [last.at, last.seq] : null }
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
  const source = yield* byCreation(store, filter, { isAscending: false, after: null })
  const wanted = { offset: 0, limit: atMost + 1 }
  const taken = yield* matching(source, new Comparison(store, filter), wanted)
  return taken.count(atMost, source)
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
  const direction = { isAscending: true, after: keyAt(after) }
  const { merge } = yield* byCreation(store, filter, direction)
  const comparison = new Comparison(store, filter)
  const found: FoundId[] = []
  for (;;) {
    const part = take(merge, Math.min(comparison.partSize, limit - found.length))
    const last = part.at(-1)
    if (last === undefined) return { found, next: null }
    const rows = comparison.matches(part)
    for (const { seq, at } of part) {
      const row = rows.get(seq)
      if (row) found.push({ id: row.id, place: [at, seq] })
    }
    const isEnough =
      found.length >= limit || comparison.rows >= MAX_LOOKED_FOR_IDS || comparison.isExhausted
    if (isEnough) return { found, next: [last.at, last.seq] }
    yield
  }
}
