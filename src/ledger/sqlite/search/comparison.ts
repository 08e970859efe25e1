/** Compares the rows of a search with its filter, many in one statement. */
import type { JobFilter } from '../../../job/search/filter.ts'
import { type CheckedRow, isMet, needlesOf, textsOf } from '../../lists/comparing.ts'
import { MAX_ENVELOPES } from '../../lists/limits.ts'
import type { Key } from '../../lists/order.ts'
import type { JobOrder } from '../../search.ts'
import type { Needles, Texts } from '../sql/search.ts'
import type { Store } from '../state/store.ts'

/** Rows, and bytes of envelopes, of one statement: it holds the event loop. */
const MOST_AT_ONCE = 64
const FEWEST_AT_ONCE = 4
const MAX_BYTES_AT_ONCE = 1024 * 1024

export class Comparison {
  /** How many rows it has looked at. */
  rows = 0
  /** How many rows it should get next. */
  partSize = FEWEST_AT_ONCE
  readonly #store: Store
  readonly #filter: JobFilter
  readonly #needles: Needles
  readonly #texts: Texts
  #bytes = 0

  constructor(store: Store, filter: JobFilter) {
    this.#store = store
    this.#filter = filter
    this.#needles = needleList(filter)
    const { carry, error, envelope } = textsOf(filter)
    this.#texts = [carry ? 1 : 0, error ? 1 : 0, envelope ? 1 : 0]
  }

  /** It has read as much as one search may. */
  get isExhausted(): boolean {
    return this.#bytes >= MAX_ENVELOPES
  }

  /** The rows of the keys that match the whole filter, by their `seq`. */
  matches(keys: readonly Key[]): Map<number, CheckedRow> {
    this.rows += keys.length
    const seqs = listOf(keys)
    const { statements } = this.#store
    const [, , , , , , , , , , envelope] = this.#needles
    const bytes = envelope === null ? 0 : (statements.bytesOf.get(seqs)?.bytes ?? 0)
    this.#bytes += bytes
    const isMuch = bytes > MAX_BYTES_AT_ONCE
    this.partSize = isMuch
      ? Math.max(1, this.partSize >> 1)
      : Math.min(MOST_AT_ONCE, 2 * this.partSize)
    const found = statements.mayMatch.all(seqs, ...this.#needles, ...this.#texts)
    const met = found.filter((row) => isMet(this.#filter, row))
    return new Map(met.map((row) => [row.seq, row]))
  }
}

/** The rows of the keys by the value of an order. `last`: that of rows without one. */
export function sortKeys(
  { statements }: Store,
  keys: readonly Key[],
  order: JobOrder,
  last: number,
): Key[] {
  return statements.sortKeys.all(listOf(keys), order, last)
}

function listOf(keys: readonly Key[]): string {
  return `[${keys.map(({ seq }) => seq).join()}]`
}

function needleList(filter: JobFilter): Needles {
  const needles = needlesOf(filter)
  const { workerId, enqueuedFrom, enqueuedUntil, endedFrom, endedUntil } = needles
  const times = [enqueuedFrom, enqueuedUntil, endedFrom, endedUntil] as const
  const { states, queues, priority, carry, error, envelope } = needles
  return [workerId, ...times, listed(states), listed(queues), priority, carry, error, envelope]
}

function listed(values: readonly string[] | null): string | null {
  return values && JSON.stringify(values)
}
