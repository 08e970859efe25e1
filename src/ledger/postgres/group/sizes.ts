/** How much text one write, and one statement of it, may have in memory. */
import type { Row, Statement } from '../connection.ts'
import { withoutNul } from '../nul.ts'

/** The most text of one page, in bytes: a page is in memory as a whole. */
const MAX_BYTES = 16 * 1024 * 1024

/** The most text of one statement, which is in memory several times while it is sent. */
const MAX_STATEMENT_LENGTH = 2 * 1024 * 1024

/** In order, as many together as one statement may have; at least one. */
export function inStatements<T>(all: readonly T[], lengthOf: (one: T) => number): T[][] {
  const parts: T[][] = []
  let length = Number.POSITIVE_INFINITY
  for (const one of all) {
    const more = lengthOf(one)
    if (length + more > MAX_STATEMENT_LENGTH) {
      parts.push([])
      length = 0
    }
    parts.at(-1)?.push(one)
    length += more
  }
  return parts
}

/** Of `job_bodies b`. */
export const SIZE = `octet_length(b.envelope) + coalesce(octet_length(b.errors), 0)
  + coalesce(octet_length(b.result), 0)`

/** Rows of `id` and `bytes`, of those of these jobs that there are. */
export function sizesOf(schema: string, ids: readonly string[]): Statement {
  const text = `SELECT b.id, ${SIZE} AS bytes FROM ${schema}.job_bodies b
    WHERE b.id = ANY($1::text[])`
  return { text, values: [withoutNul(ids)] }
}

/** The ids of as many as are in memory at once, at least one. */
export function firstPage(found: readonly Row[]): string[] {
  let bytes = 0
  const kept = found.filter((one, i) => {
    const isFirst = i === 0 || bytes < MAX_BYTES
    bytes += Number(one['bytes'])
    return isFirst
  })
  return kept.map(({ id }) => String(id))
}

/** The first of these ids, by an answer to `sizesOf`. */
export function firstOf(ids: readonly string[], sizes: readonly Row[]): string[] {
  const bytes = new Map(sizes.map((row) => [String(row['id']), row['bytes']]))
  return firstPage(ids.map((id) => ({ id, bytes: bytes.get(id) ?? 0 })))
}
