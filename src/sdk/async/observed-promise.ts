/** A promise that knows whether somebody has asked for its outcome. */

/**
 * A promise that settles as `source` does, and records whether anybody has asked for its outcome: if nobody
 * has, nobody can have caught its error. It is never reported as an unhandled rejection; its creator handles
 * the error of `source`.
 */
export class ObservedPromise<Result> extends Promise<Result> {
  /** `then` and the like return ordinary promises. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  #isHeard = false

  constructor(source: Promise<Result>) {
    super((resolve, reject) => {
      source.then(resolve, reject)
    })
    super.then(undefined, () => undefined)
  }

  get isHeard(): boolean {
    return this.#isHeard
  }

  /** `await`, `catch`, `Promise.all` and the like all call this method, because this class overrides it. */
  // biome-ignore lint/suspicious/noThenProperty: this class is a promise, and overrides its method.
  override then<Then = Result, Caught = never>(
    onFulfilled?: ((result: Result) => Then | PromiseLike<Then>) | null,
    onRejected?: ((reason: unknown) => Caught | PromiseLike<Caught>) | null,
  ): Promise<Then | Caught> {
    this.#isHeard = true
    return super.then(onFulfilled, onRejected)
  }
}
