import { ByAge } from '../insertion-ordered-map.ts'

/** Remembers a value for each of the newest `limit` ids; the oldest id is dropped first. */
export class KnownIds<T> {
  readonly #limit: number
  readonly #ids = new ByAge<string, T>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get(id: string): T | undefined {
    return this.#ids.get(id)
  }

  set(id: string, known: T): void {
    this.#ids.set(id, known)
    if (this.#ids.size > this.#limit) this.#ids.dropOldest()
  }
}
