/** A promise that is resolved from outside. */

/** A promise that its creator resolves. Node 20 has no `Promise.withResolvers`. */
export class Deferred<T> {
  resolve: (value: T) => void = () => undefined
  readonly promise = new Promise<T>((resolve) => {
    this.resolve = resolve
  })
}
