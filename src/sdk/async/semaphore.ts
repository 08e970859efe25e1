/** Slots: at most so many things at a time, the others wait in order. */
import { onAbort } from './on-abort.ts'

/** Limits how many things happen at a time: a caller beyond `size` waits for a slot, in order. */
export class Slots {
  #free: number
  readonly #waiting = new Set<() => void>()
  /** One iterator for all calls: a new one would have to step over every entry that was deleted before. */
  #iterator = this.#waiting.values()

  constructor(size: number) {
    this.#free = size
  }

  /** Takes a slot. True: the caller has it and must `give` it back. False: `signal` fired first. */
  take(signal: AbortSignal | undefined): true | Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1
      return true
    }
    if (signal?.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const take = () => {
        unsubscribe?.()
        resolve(true)
      }
      const leave = () => {
        unsubscribe?.()
        this.#waiting.delete(take)
        resolve(false)
      }
      const unsubscribe = signal && onAbort(signal, leave)
      this.#waiting.add(take)
    })
  }

  /** Gives a slot back: the next caller in line gets it. */
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
    const { value } = this.#iterator.next()
    if (value !== undefined) return value
    // An iterator that has reached its end stays there.
    this.#iterator = this.#waiting.values()
    return this.#iterator.next().value
  }
}
