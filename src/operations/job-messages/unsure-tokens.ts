/** Well above the number of publishes that may be in flight and time out together (`publisher.ts`). */
const MAX_IDS = 50_000

/**
 * Ids of jobs that may have a token in RabbitMQ although their next one is not confirmed: its publish was not
 * answered, or the last token may be back in its queue. Beyond `MAX_IDS` every job counts as unsure.
 */
export class UnsureTokens {
  readonly #ids = new Set<string>()
  #isFull = false

  add(id: string): void {
    if (this.#ids.size < MAX_IDS) this.#ids.add(id)
    else if (!this.#ids.has(id)) this.#isFull = true
  }

  /**
   * To be called when the token was confirmed (its row says so by now, or will soon), when it was delivered,
   * or when its job has ended or was withdrawn.
   */
  forget(id: string): void {
    this.#ids.delete(id)
  }

  has(id: string): boolean {
    return this.#isFull || this.#ids.has(id)
  }
}
