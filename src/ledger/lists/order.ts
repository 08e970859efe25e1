/** In which order rows are listed, and where a list begins. */
import type { JobFilter } from '../../job/search/filter.ts'
import type { PageEnd, Place } from '../search.ts'

/** The number of a row, and what it is ordered by. */
export interface Key {
  seq: number
  at: number
}

/** Where a list begins, and in which direction it goes. */
export interface Direction {
  isAscending: boolean
  /** The list begins behind it; null: at its start. */
  after: Key | null
}

/** The values between which rows of a list are read: `until` is not included. */
export interface Limits {
  from: number
  until: number
}

const EARLIEST = Number.MIN_SAFE_INTEGER
const LATEST = Number.MAX_SAFE_INTEGER

export const NO_LIMITS: Limits = { from: EARLIEST, until: LATEST }

export function createdBetween({ created }: JobFilter): Limits {
  return { from: created.from ?? EARLIEST, until: created.until ?? LATEST }
}

export function endedBetween({ ended }: JobFilter): Limits {
  return { from: ended.from ?? EARLIEST, until: ended.until ?? LATEST }
}

/** The place behind which the list begins. */
export function startOf({ isAscending, after }: Direction, { from, until }: Limits): Key {
  const edge = isAscending ? { at: from, seq: 0 } : { at: until, seq: 0 }
  if (after === null) return edge
  return orderOf({ isAscending })(edge, after) ? after : edge
}

/** Whether key `a` comes before key `b` in the list. */
export function orderOf({
  isAscending,
}: Pick<Direction, 'isAscending'>): (a: Key, b: Key) => boolean {
  return isAscending
    ? (a, b) => a.at < b.at || (a.at === b.at && a.seq < b.seq)
    : (a, b) => a.at > b.at || (a.at === b.at && a.seq > b.seq)
}

/** The key of the row at which a page ended. */
export function keyAt(end: Place | PageEnd | null): Key | null {
  return end && { at: end[0], seq: end[1] }
}

/** Those of the keys that the list has, in its order. */
export function inOrder<K extends Key>(keys: readonly K[], { isAscending, after }: Direction): K[] {
  const isBefore = orderOf({ isAscending })
  const left = keys.filter((key) => after === null || isBefore(after, key))
  return left.sort((a, b) => (isBefore(a, b) ? -1 : 1))
}

/** SQL: what a job is ordered by, of the columns of its row; NULL: see `lastValue`. `order`: SQL of a `JobOrder`. */
export function sortValue(order: string): string {
  return `CASE ${order} WHEN 'created_at' THEN created_at WHEN 'priority' THEN priority
    WHEN 'scheduled_at' THEN due_at
    ELSE coalesce(ended_at, CASE WHEN started_at > enqueued_at THEN started_at ELSE enqueued_at END) END`
}

/** The value of a job that has none: it comes last in both directions. */
export function lastValue({ isAscending }: Pick<Direction, 'isAscending'>): number {
  return isAscending ? LATEST : EARLIEST
}
