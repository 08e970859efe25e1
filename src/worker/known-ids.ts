/** The newest `limit` ids with what is known of them; the oldest goes first. */
export class KnownIds<T> {
  readonly #limit: number
  readonly #ids = new Map<string, T>()
  /** One for all times: a new one would step over everything that was deleted before. */
  readonly #line = this.#ids.keys()

  constructor(limit: number) {
    this.#limit = limit
  }

  get(id: string): T | undefined {
    return this.#ids.get(id)
  }

  set(id: string, known: T): void {
    this.#ids.delete(id)
    this.#ids.set(id, known)
    if (this.#ids.size <= this.#limit) return
    const { value: oldest } = this.#line.next()
    if (oldest !== undefined) this.#ids.delete(oldest)
  }
}
