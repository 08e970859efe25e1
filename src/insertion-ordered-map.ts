/** A map from the oldest to the newest entry, for caches that drop the oldest. */

/**
 * Writes after which an unused iterator is dropped. V8 keeps, for an iterator that does not advance, every
 * hash table that the map has outgrown since, with all entries that were in it.
 */
const MAX_WRITES = 1_000

/** A map that is ordered by when its entries were last set. */
export class InsertionOrderedMap<K, V> extends Map<K, V> {
  /** Reused from call to call: a new iterator would step over all entries that were deleted before. */
  #oldestFirst: Iterator<K> | undefined
  #writes = 0

  override set(key: K, value: V): this {
    this.#writes += 1
    if (this.#writes > MAX_WRITES) this.#oldestFirst = undefined
    this.delete(key)
    return super.set(key, value)
  }

  /** Deletes the oldest entry and returns its value. */
  dropOldest(): V | undefined {
    this.#writes = 0
    this.#oldestFirst ??= this.keys()
    const { value: key, done } = this.#oldestFirst.next()
    // An iterator that has reached the end stays there, even when entries are added.
    if (done === true) this.#oldestFirst = undefined
    const value = this.get(key)
    this.delete(key)
    return value
  }
}
