/** What a page takes of its list, and where it ends. */
import type { Counted, Found, PageEnd, SearchPage } from '../search.ts'
import { MAX_COMPARED, MAX_SORTED } from './limits.ts'
import type { Key } from './order.ts'

/** Which of the keys that match are wanted. */
export interface Wanted {
  /** How many to skip. */
  offset: number
  limit: number
  /** How many rows in a row did not match on the pages before. */
  looked?: number
}

/** One key more than the page has jobs, which tells whether more follow. */
export function wantedBy({ after, offset, limit }: SearchPage): Wanted {
  const [, , toSkip = 0, looked = 0] = after ?? []
  return { offset: offset + toSkip, limit: limit + 1, looked }
}

export class PageKeys<K extends Key> {
  readonly keys: K[] = []
  /** How many rows it has passed. */
  passed = 0
  /** How many rows were looked at since the last page that had jobs, if it ended early; else null. */
  searched: number | null = null
  /** Where it ended early, if the list goes on there. */
  end: PageEnd | null = null
  readonly #limit: number
  readonly #looked: number
  #toSkip: number
  #hasMatch = false
  #last: K | undefined

  constructor({ offset, limit, looked = 0 }: Wanted) {
    this.#limit = limit
    this.#looked = looked
    this.#toSkip = offset
  }

  /** How many keys that match it still takes. */
  get left(): number {
    return this.#toSkip + this.#limit - this.keys.length
  }

  /** Takes of the next rows of the list those that match. */
  add(part: readonly K[], matches: readonly K[]): void {
    const skipped = Math.min(this.#toSkip, matches.length)
    this.keys.push(...matches.slice(skipped, skipped + this.#limit - this.keys.length))
    this.#toSkip -= skipped
    this.#hasMatch ||= matches.length > 0
    this.passed += part.length
    this.#last = part.at(-1)
  }

  /** The page ends behind the last row, though it is not full. */
  endEarly(): this {
    this.searched = this.passed + (this.#hasMatch ? 0 : this.#looked)
    const { at, seq } = this.#last ?? {}
    const isOver = at === undefined || seq === undefined || this.searched >= MAX_COMPARED
    this.end = isOver ? null : [at, seq, this.#toSkip, this.searched]
    return this
  }

  /** `next`: the place of the last job, if that is known to have others behind it. */
  endOf(
    { limit }: SearchPage,
    next: PageEnd | null,
    { isCut, looked }: List,
  ): Pick<Found, 'next' | 'isEarly' | 'searched'> {
    const searched = this.searched ?? (isCut ? (looked ?? this.passed) : null)
    const end = limit > 0 ? this.end : null
    return { next: next ?? end, isEarly: next === null && end !== null, searched }
  }

  /** What is known of the list that these make in another order, if up to `MAX_SORTED` were wanted for it. */
  sortedOf({ isCut }: List): Required<List> {
    const hasMore = this.searched !== null || this.keys.length > MAX_SORTED
    return { isCut: isCut || hasMore, looked: Math.min(this.passed, MAX_SORTED) }
  }

  /** How many keys there are, of which one more than `atMost` were wanted. */
  count(atMost: number, { isCut }: List): Counted {
    const { length } = this.keys
    const isBound = isCut || this.searched !== null || length > atMost
    return { count: Math.min(length, atMost), isBound }
  }
}

/** What is known of the list of a page. */
export interface List {
  /** True: it lacks rows that may match. */
  isCut: boolean
  /** How many rows were looked at for it, if not row by row for the page. */
  looked?: number
}
