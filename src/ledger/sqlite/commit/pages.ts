/** Writes that change a page of rows: as many as there is time for, and one by one if they fail together. */
import type { Access } from './access.ts'
import { MAX_TURN_MS } from './group-commit.ts'

/** Applies `make` to as many entries as there is time for, and to one at least. */
export function inTime<T, R>(list: readonly T[], make: (one: T) => R): R[] {
  const until = performance.now() + MAX_TURN_MS
  const made: R[] = []
  for (const entry of list) {
    if (made.length > 0 && performance.now() > until) break
    made.push(make(entry))
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
