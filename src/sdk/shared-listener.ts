/**
 * One listener for any number of those who want to hear the same: from the eleventh on Node.js warns
 * of a leak. `listen` must do nothing where the listener is there already.
 */
export class SharedListener<Args extends readonly unknown[]> {
  readonly #listen: (tell: (...args: Args) => void) => void
  readonly #unlisten: (tell: (...args: Args) => void) => void
  readonly #all = new Set<(...args: Args) => void>()
  readonly #tell = (...args: Args) => {
    for (const each of [...this.#all]) each(...args)
  }

  constructor(
    listen: (tell: (...args: Args) => void) => void,
    unlisten: (tell: (...args: Args) => void) => void,
  ) {
    this.#listen = listen
    this.#unlisten = unlisten
  }

  get isHeard(): boolean {
    return this.#all.size > 0
  }

  /** Again for each one: somebody may have removed all listeners. What is returned takes it back. */
  add(listener: (...args: Args) => void): () => void {
    this.#all.add(listener)
    this.#listen(this.#tell)
    return () => {
      this.#all.delete(listener)
      if (this.#all.size === 0) this.#unlisten(this.#tell)
    }
  }
}
