/** A promise that whoever made it settles. Node 20 has no `Promise.withResolvers`. */
export class Deferred<T> {
  resolve: (value: T) => void = () => undefined
  readonly promise = new Promise<T>((resolve) => {
    this.resolve = resolve
  })
}
