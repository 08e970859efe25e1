/**
 * A promise that settles as `source` does, and knows whether anybody has asked what came of it: where
 * nobody has, nobody can have caught its error. It is never reported as an unhandled rejection: whoever
 * made it looks at `source`.
 */
export class Heard<Result> extends Promise<Result> {
  /** What is derived from it is an ordinary promise. */
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

  /** `await`, `catch`, `Promise.all` and the like all come here: this is no plain promise to them. */
  // biome-ignore lint/suspicious/noThenProperty: that of a promise, which this is.
  override then<Then = Result, Caught = never>(
    onFulfilled?: ((result: Result) => Then | PromiseLike<Then>) | null,
    onRejected?: ((reason: unknown) => Caught | PromiseLike<Caught>) | null,
  ): Promise<Then | Caught> {
    this.#isHeard = true
    return super.then(onFulfilled, onRejected)
  }
}
