/** The deadlines of many things on a single timer. */
import { MAX_DELAY_MS } from './sleep.ts'

/**
 * The deadlines of many things, with a single timer. Nearly all are deleted before they come, so `delete`
 * leaves the timer alone: it fires at the earliest deadline that was set, and then looks for due ones.
 */
export class Deadlines<T> {
  readonly #due = new Map<T, number>()
  readonly #onDue: (thing: T) => void
  #timer: ReturnType<typeof setTimeout> | undefined
  #wakesAt = Number.POSITIVE_INFINITY

  /** `onDue` is called once for each due thing, and must not throw. */
  constructor(onDue: (thing: T) => void) {
    this.#onDue = onDue
  }

  /** `at`: in terms of `performance.now()`. */
  set(thing: T, at: number): void {
    this.#due.set(thing, at)
    if (at < this.#wakesAt) this.#wakeAt(at)
  }

  delete(thing: T): void {
    this.#due.delete(thing)
    // Without deadlines there must be no timer: it would keep the process alive.
    if (this.#due.size === 0) this.#clearTimer()
  }

  #wakeAt(at: number): void {
    this.#clearTimer()
    this.#wakesAt = at
    const delay = Math.min(Math.max(0, Math.ceil(at - performance.now())), MAX_DELAY_MS)
    this.#timer = setTimeout(() => this.#fireDue(), delay)
  }

  #clearTimer(): void {
    clearTimeout(this.#timer)
    this.#wakesAt = Number.POSITIVE_INFINITY
  }

  #fireDue(): void {
    this.#wakesAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    let next = Number.POSITIVE_INFINITY
    for (const [thing, at] of [...this.#due]) {
      if (at > now) {
        next = Math.min(next, at)
      } else if (this.#due.delete(thing)) {
        this.#onDue(thing)
      }
    }
    if (next < this.#wakesAt) this.#wakeAt(next)
  }
}
