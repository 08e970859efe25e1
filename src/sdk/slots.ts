import { onAbort } from './on-abort.ts'

/** So many things at a time; who comes later waits for a slot, in order. */
export class Slots {
  #free: number
  readonly #waiting = new Set<() => void>()
  /** One for all turns: a new one would step over everything that was deleted before. */
  #line = this.#waiting.values()

  constructor(size: number) {
    this.#free = size
  }

  /** True: a slot is taken, and has to be given back. False: `signal` fired first. */
  take(signal: AbortSignal | undefined): true | Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1
      return true
    }
    if (signal?.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const take = () => {
        unheed?.()
        resolve(true)
      }
      const leave = () => {
        unheed?.()
        this.#waiting.delete(take)
        resolve(false)
      }
      const unheed = signal && onAbort(signal, leave)
      this.#waiting.add(take)
    })
  }

  /** The slot is the next one's. */
  give(): void {
    const take = this.#next()
    if (take === undefined) {
      this.#free += 1
      return
    }
    this.#waiting.delete(take)
    take()
  }

  #next(): (() => void) | undefined {
    if (this.#waiting.size === 0) return undefined
    const { value } = this.#line.next()
    if (value !== undefined) return value
    // At its end, which is for good.
    this.#line = this.#waiting.values()
    return this.#line.next().value
  }
}
