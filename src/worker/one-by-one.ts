/** Begins jobs one after another. */

/**
 * A job that kills its worker with its first lines must cost no other job its last attempt before that has begun: the
 * start of one is not reported before the handler of the one before has been called.
 */
export class OneByOne {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(begin: () => Promise<T>): Promise<T> {
    const begun = this.#last.then(begin)
    this.#last = begun.then(nextTurn, nextTurn)
    return begun
  }
}

/** Until then the handler has run to its first wait. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
