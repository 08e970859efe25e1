/** Of setTimeout; a longer delay would fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1

/** A sleep that can be cut short. One sleeper at a time. */
export class Pause {
  #wake: (() => void) | undefined

  /** `Infinity`: until woken. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer =
        ms === Number.POSITIVE_INFINITY
          ? undefined
          : setTimeout(() => this.wake(), Math.min(Math.max(0, ms), MAX_DELAY_MS))
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** Nobody asleep: nothing. */
  wake(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }
}
