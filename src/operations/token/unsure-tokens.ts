/** Well beyond what may be under way (`publisher.ts`), all of which may time out together. */
const MAX_IDS = 50_000

/**
 * Whose publish was not answered, or whose last token may be the broker's again. Beyond `MAX_IDS`
 * everybody is unsure.
 */
export class UnsureTokens {
  readonly #ids = new Set<string>()
  #isFull = false

  add(id: string): void {
    if (this.#ids.size < MAX_IDS) this.#ids.add(id)
    else if (!this.#ids.has(id)) this.#isFull = true
  }

  /**
   * Call it when the token was confirmed (its row says so by now, or will), when it has come, or when
   * its job is over or withdrawn.
   */
  forget(id: string): void {
    this.#ids.delete(id)
  }

  has(id: string): boolean {
    return this.#isFull || this.#ids.has(id)
  }
}
