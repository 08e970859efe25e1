import type { JobRow } from './job.ts'

/**
 * What the texts of one page have together, in characters: a page is in memory as a whole, and a
 * single job may be as large as a batch (OJS_MAX_BATCH_BYTES).
 */
const MAX_TEXT = 16 * 1024 * 1024

/** The rows of what was found, until they are a page. At least one. */
export function pageOf<T>(
  found: readonly T[],
  rowOf: (one: T) => JobRow,
  maxText: number = MAX_TEXT,
): JobRow[] {
  const rows: JobRow[] = []
  let text = 0
  for (const one of found) {
    if (text >= maxText) break
    const row = rowOf(one)
    text += textOf(row)
    rows.push(row)
  }
  return rows
}

/** Whether there may be others behind these, of which `limit` were asked for. */
export function mayHaveMore(rows: readonly JobRow[], limit: number): boolean {
  return rows.length >= limit || rows.reduce((sum, row) => sum + textOf(row), 0) >= MAX_TEXT
}

function textOf({ envelope, errors, result }: JobRow): number {
  return envelope.length + (errors?.length ?? 0) + (result?.length ?? 0)
}
