/** Several ranges of an index as one ordered list, merged by the server. */
import { type Direction, type Key, type Limits, startOf } from '../../lists/order.ts'
import type { Reader } from '../reader.ts'

/** A key, and the id of its row. */
export interface FoundKey extends Key {
  id: string
}

/** The next keys of a list, at most `count`; fewer do not mean that it is at its end, none does. */
export interface Keys {
  /** How many ranges of an index each `take` seeks in, roughly: it should not ask for fewer keys. */
  readonly seeks: number
  take(count: number): Promise<FoundKey[]>
}

/** Ranges of `jobs j`, each in the order of `column`, then of `seq`, by an index. */
export interface Ranges {
  column: 'created_at' | 'due_at' | 'discarded_at'
  /** A FROM item named `r`, with a row and a number `n` for each range, of `values` as `$1` and so on. */
  of: string
  values: readonly unknown[]
  /** What the rows of a range `r` have. */
  where: string
  /** How many ranges there are, roughly. */
  size: number
}

export type Asks = Pick<Reader, 'rows'>

/** Keys that one statement reads, of all ranges together; but at least so many of each. */
const MOST_READ = 40_000
const FEWEST_OF_RANGE = 4
/** How many times as many keys as are wanted are read at first: few ranges have their even share. */
const SPARE = 8

/** A list that reads its ranges anew with each part: rows that move between them are in one part only. */
export class KeyList implements Keys {
  readonly #asks: Asks
  readonly #text: string
  readonly #ranges: Ranges
  readonly #end: number
  #after: Key
  #isRead = false
  /** Doubled when the ranges have turned out to be very unequal. */
  #spare = SPARE

  constructor(asks: Asks, schema: string, ranges: Ranges, direction: Direction, limits: Limits) {
    this.#asks = asks
    this.#text = textOf(schema, ranges, direction.isAscending)
    this.#ranges = ranges
    this.#end = direction.isAscending ? limits.until : limits.from
    this.#after = startOf(direction, limits)
  }

  get seeks(): number {
    return this.#ranges.size
  }

  async take(count: number): Promise<FoundKey[]> {
    if (this.#isRead || count === 0 || this.#ranges.size === 0) return []
    const { values, size } = this.#ranges
    const most = Math.min(count * this.#spare, MOST_READ)
    const ofEach = Math.min(count, Math.max(FEWEST_OF_RANGE, Math.ceil(most / size)))
    const { at, seq } = this.#after
    const bounds = [this.#end, at, seq, ofEach, count]
    const rows = await this.#asks.rows(this.#text, [...values, ...bounds])
    const { keys, isAll } = complete(rows as readonly unknown[] as Ranged[], ofEach)
    this.#isRead = isAll && rows.length < count
    if (keys.length < count / 2) this.#spare *= 2
    this.#after = keys.at(-1) ?? this.#after
    return keys
  }
}

interface Ranged extends FoundKey {
  n: number
}

/** The keys up to the first range that was read only in part: its next may come before those of others. */
function complete(rows: readonly Ranged[], ofEach: number): { keys: FoundKey[]; isAll: boolean } {
  const read = new Map<number, number>()
  for (const [i, { n }] of rows.entries()) {
    const count = (read.get(n) ?? 0) + 1
    if (count === ofEach) return { keys: rows.slice(0, i + 1), isAll: false }
    read.set(n, count)
  }
  return { keys: [...rows], isAll: true }
}

function textOf(schema: string, { column, of, values, where }: Ranges, isAscending: boolean) {
  const [end, at, seq, ofEach, count] = [1, 2, 3, 4, 5].map((i) => `$${values.length + i}::bigint`)
  const bounds = isAscending
    ? `j.${column} < ${end} AND (j.${column}, j.seq) > (${at}, ${seq})`
    : `j.${column} >= ${end} AND (j.${column}, j.seq) < (${at}, ${seq})`
  const direction = isAscending ? 'ASC' : 'DESC'
  return `SELECT r.n, k.* FROM ${of} CROSS JOIN LATERAL (
      SELECT j.seq, j.${column} AS at, j.id FROM ${schema}.jobs j WHERE ${where} AND ${bounds}
      ORDER BY j.${column} ${direction}, j.seq ${direction} LIMIT ${ofEach}) k
    ORDER BY k.at ${direction}, k.seq ${direction} LIMIT ${count}`
}

/** A list of keys that are in memory. */
export function inMemory(keys: readonly FoundKey[]): Keys {
  let next = 0
  return {
    seeks: 0,
    take: async (count) => {
      const part = keys.slice(next, next + count)
      next += part.length
      return part
    },
  }
}
