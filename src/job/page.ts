/** Pages of a list, bounded by the text that they hold. */
import type { JobRow } from './job.ts'

/**
 * The most text of one page, in characters: a page is in memory as a whole, and a single job may be as large
 * as a batch (OJS_MAX_BATCH_BYTES).
 */
export const MAX_TEXT = 16 * 1024 * 1024

/** Reads the rows of `found` until their texts reach `maxText`; at least one row. */
export function pageOf<T>(
  found: readonly T[],
  rowOf: (item: T) => JobRow,
  maxText: number = MAX_TEXT,
): JobRow[] {
  const rows: JobRow[] = []
  let text = 0
  for (const item of found) {
    if (text >= maxText) break
    const row = rowOf(item)
    text += textOf(row)
    rows.push(row)
  }
  return rows
}

/** True when more rows may follow these: there are `limit` of them, or their texts reached the maximum. */
export function mayHaveMore(rows: readonly JobRow[], limit: number): boolean {
  return rows.length >= limit || rows.reduce((sum, row) => sum + textOf(row), 0) >= MAX_TEXT
}

/** The text that a row holds, in characters. */
export function textOf({ envelope, errors, result }: JobRow): number {
  return envelope.length + (errors?.length ?? 0) + (result?.length ?? 0)
}
