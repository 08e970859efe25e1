/** Finds jobs, counts them, and pages through their ids. */
import type { JobFilter } from '../../../job/search/filter.ts'
import { hasOwnIndex, isCounted, isCountOfDead, needsRow } from '../../../job/search/needs.ts'
import type { DeadLetterStats } from '../../dead-letters.ts'
import {
  MAX_COMPARED,
  MAX_COMPARED_AT_ONCE,
  MAX_LOOKED_FOR_IDS,
  MAX_SORTED,
} from '../../lists/limits.ts'
import { createdBetween, type Direction, inOrder, keyAt, lastValue } from '../../lists/order.ts'
import { PageKeys, type Wanted, wantedBy } from '../../lists/page-keys.ts'
import type {
  Counted,
  Found,
  FoundId,
  JobOrder,
  JobSearch,
  OldestJobs,
  Place,
  SearchPage,
} from '../../search.ts'
import { Comparison, sortKeys } from './comparison.ts'
import { statsOfDead } from './dead-letter-stats.ts'
import { foundPage } from './found.ts'
import { type FoundKey, inMemory } from './key-list.ts'
import { oldestJobs } from './oldest.ts'
import {
  byCreation,
  byDeath,
  byDueTime,
  countOf,
  deadIn,
  rangesOf,
  type Searched,
  type Source,
} from './sources.ts'

/** Keys of one statement that need not be compared. */
const KEYS_PER_STEP = 2_048

export class PostgresSearch implements JobSearch {
  readonly #searched: Searched

  constructor(searched: Searched) {
    this.#searched = searched
  }

  async page(filter: JobFilter, page: SearchPage): Promise<Found> {
    const { isAscending, after, order } = page
    const direction = { isAscending, after: keyAt(after) }
    const own = this.#ownOrder(filter, order, direction)
    const isSorted = order !== 'created_at' && own === null
    const source = isSorted
      ? await this.#sorted(filter, page)
      : (own ?? (await byCreation(this.#searched, filter, direction)))
    const found = await matching(source, new Comparison(this.#searched, filter), wantedBy(page))
    const { jobs, next } = await foundPage(this.#searched, filter, found.keys, page)
    return { jobs, ...found.endOf(page, next, source) }
  }

  async count(filter: JobFilter, atMost: number): Promise<Counted> {
    const { memory } = this.#searched
    const { states, queues } = filter
    if (isCountOfDead(filter)) return { count: deadIn(memory, queues), isBound: false }
    if (isCounted(filter)) return { count: countOf(memory, states, queues), isBound: false }
    if (!needsRow(filter)) return await this.#countRanges(filter, atMost)
    const newest = { isAscending: false, after: null }
    const source = await byCreation(this.#searched, filter, newest)
    const wanted = { offset: 0, limit: atMost + 1 }
    const taken = await matching(source, new Comparison(this.#searched, filter), wanted)
    return taken.count(atMost, source)
  }

  async ids(
    filter: JobFilter,
    after: Place | null,
    limit: number,
  ): Promise<{ found: FoundId[]; next: Place | null }> {
    const direction = { isAscending: true, after: keyAt(after) }
    const { keys } = await byCreation(this.#searched, filter, direction)
    const comparison = new Comparison(this.#searched, filter)
    const found: FoundId[] = []
    for (;;) {
      // Not fewer than may match: each part costs a seek into every range.
      const part = await keys.take(comparison.nextOf(keys))
      const matched = await comparison.matches(part)
      for (const { id, at, seq } of part) {
        if (matched.has(id)) found.push({ id, place: [at, seq] })
        if (found.length >= limit) return { found, next: [at, seq] }
      }
      const last = part.at(-1)
      if (last === undefined) return { found, next: null }
      const isEnough = comparison.rows >= MAX_LOOKED_FOR_IDS || comparison.isExhausted
      if (isEnough) return { found, next: [last.at, last.seq] }
    }
  }

  oldest(
    queues: readonly string[],
    now: number,
    wall: number,
  ): Promise<ReadonlyMap<string, OldestJobs>> {
    return oldestJobs(this.#searched, queues, now, wall)
  }

  deadLetterStats(queues: readonly string[]): Promise<DeadLetterStats> {
    return statsOfDead(this.#searched, queues)
  }

  /** The list in the order that has an index of its own. */
  #ownOrder(filter: JobFilter, order: JobOrder, direction: Direction): Source | null {
    if (order === 'scheduled_at') return byDueTime(this.#searched, filter, direction)
    if (order !== 'discarded_at' || hasOwnIndex(filter)) return null
    return byDeath(this.#searched, filter, direction)
  }

  /** The newest jobs that match, in another order than that of their creation. */
  async #sorted(filter: JobFilter, { order, isAscending, after }: SearchPage): Promise<Source> {
    const newest = { isAscending: false, after: null }
    const source = await byCreation(this.#searched, filter, newest)
    const wanted = { offset: 0, limit: MAX_SORTED + 1 }
    const comparison = new Comparison(this.#searched, filter)
    const matches = await matching(source, comparison, wanted, MAX_SORTED)
    const found = matches.keys.slice(0, MAX_SORTED)
    const last = lastValue({ isAscending })
    const keys: FoundKey[] = []
    for (let i = 0; i < found.length; i += KEYS_PER_STEP) {
      const part = found.slice(i, i + KEYS_PER_STEP)
      keys.push(...(await sortKeys(this.#searched, part, order, last)))
    }
    const left = inOrder(keys, { isAscending, after: keyAt(after) })
    return { keys: inMemory(left), isRough: false, ...matches.sortedOf(source) }
  }

  async priorities(queue: string): ReturnType<JobSearch['priorities']> {
    const { asks, schema } = this.#searched
    const text = `SELECT priority, count(*) AS count FROM (
      SELECT j.priority FROM ${schema}.jobs j WHERE j.queue = $1 AND j.state = 'available'
      LIMIT $2) waiting GROUP BY priority`
    const rows = await asks.rows(text, [queue, MAX_COMPARED])
    const counts = new Map(rows.map(({ priority, count }) => [Number(priority), Number(count)]))
    const searched = [...counts.values()].reduce((sum, count) => sum + count, 0)
    return { counts, searched: searched < MAX_COMPARED ? null : searched }
  }

  async #countRanges(filter: JobFilter, atMost: number): Promise<Counted> {
    const { asks, schema } = this.#searched
    const { from, until } = createdBetween(filter)
    const { ranges, isCut } = await rangesOf(this.#searched, filter)
    const { of, where, values } = ranges
    const n = values.length
    const text = `SELECT count(*) AS count FROM (
      SELECT 1 FROM ${of} CROSS JOIN LATERAL (
        SELECT 1 FROM ${schema}.jobs j WHERE ${where}
          AND j.created_at >= $${n + 1} AND j.created_at < $${n + 2} LIMIT $${n + 3}) k
      LIMIT $${n + 3}) counted`
    const [row] = await asks.rows(text, [...values, from, until, atMost + 1])
    const count = Number(row?.['count'])
    return { count: Math.min(count, atMost), isBound: isCut || count > atMost }
  }
}

/** Takes the keys of the jobs that match: skips `offset` of them, and returns up to `limit`. */
async function matching(
  { keys, isRough }: Source,
  comparison: Comparison,
  wanted: Wanted,
  mostCompared = MAX_COMPARED_AT_ONCE,
): Promise<PageKeys<FoundKey>> {
  const taken = new PageKeys<FoundKey>(wanted)
  for (;;) {
    const size = isRough
      ? Math.min(comparison.nextOf(keys), mostCompared - taken.passed)
      : Math.min(taken.left, KEYS_PER_STEP)
    const part = await keys.take(size)
    if (part.length === 0) return taken
    const matched = isRough ? await comparison.matches(part) : null
    taken.add(part, matched === null ? part : part.filter(({ id }) => matched.has(id)))
    if (taken.left === 0) return taken
    if (isRough && (taken.passed >= mostCompared || comparison.isExhausted)) return taken.endEarly()
  }
}
