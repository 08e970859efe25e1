/** Writes that change a page of rows: as many as there is time for, and one by one if they fail together. */
import type { JobRow } from '../../../job/job.ts'
import { MAX_TEXT, textOf } from '../../../job/page.ts'
import type { Access } from './access.ts'
import { MAX_TURN_MS } from './group-commit.ts'

/**
 * Changes as many rows as there is time for, whose texts may be in memory, and one at least. Each is read when its turn
 * comes, because the change before it may have changed it: the end of a job lets others of its concurrency key go, and
 * starts steps that replace jobs. Null: it needs no change any more.
 */
export function inTime<T, R>(
  list: readonly T[],
  read: (one: T) => JobRow | null,
  make: (row: JobRow) => R,
): R[] {
  const until = performance.now() + MAX_TURN_MS
  const made: R[] = []
  let text = 0
  for (const entry of list) {
    if (made.length > 0 && (performance.now() > until || text >= MAX_TEXT)) break
    const row = read(entry)
    if (row === null) continue
    made.push(make(row))
    text += textOf(row)
  }
  return made
}

/**
 * Changes each row in a write of its own, so that one that fails stops no other. Null: it needs no change any more.
 * If all fail: throws `cause`.
 */
export async function eachAlone<T, R>(
  access: Access,
  list: readonly T[],
  cause: unknown,
  make: (one: T) => R | null,
): Promise<R[]> {
  const results = await Promise.allSettled(list.map((one) => access.writeMany(1, () => make(one))))
  const made = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  if (made.length === 0) throw cause
  return made.filter((one) => one !== null)
}
