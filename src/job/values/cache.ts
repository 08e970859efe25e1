/** A cache of the newest results of a function. */

/**
 * Wraps `make` in a cache of its newest results: at most `capacity`, since the keys come from clients. Evicts
 * the oldest result first. Does not cache errors.
 */
export function memo<T>(capacity: number, make: (key: string) => T): (key: string) => T {
  const kept = new Map<string, T>()
  return (key) => {
    const known = kept.get(key)
    if (known !== undefined) return known
    const made = make(key)
    for (const oldest of kept.keys()) {
      if (kept.size < capacity) break
      kept.delete(oldest)
    }
    kept.set(key, made)
    return made
  }
}
