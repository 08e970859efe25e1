/**
 * For an iterator that stands still V8 keeps every table that its map has outgrown since, with all that
 * was in them: after so many writes it is given up.
 */
const MAX_WRITES = 1_000

/** A map in the order in which its entries were last set. */
export class ByAge<K, V> extends Map<K, V> {
  /** Goes on where it was: a new one steps over everything that was deleted before. */
  #line: Iterator<K> | undefined
  #writes = 0

  override set(key: K, value: V): this {
    this.#writes += 1
    if (this.#writes > MAX_WRITES) this.#line = undefined
    this.delete(key)
    return super.set(key, value)
  }

  /** Deletes the oldest entry, and gives its value. */
  dropOldest(): V | undefined {
    this.#writes = 0
    this.#line ??= this.keys()
    const { value: key, done } = this.#line.next()
    // At its end, which is for good.
    if (done === true) this.#line = undefined
    const value = this.get(key)
    this.delete(key)
    return value
  }
}
