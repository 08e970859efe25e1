/** Tells a consumer that receives nothing although messages wait from one that has nothing to receive. */
export class StallDetector {
  readonly #patienceMs: number
  readonly #beats = new Map<string, number>()
  /** Queues with waiting messages at the last look: when, and how many had been received until then. */
  readonly #suspects = new Map<string, { at: number; beats: number }>()

  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
  }

  beat(queue: string): void {
    this.#beats.set(queue, (this.#beats.get(queue) ?? 0) + 1)
  }

  forget(queue: string): void {
    this.#beats.delete(queue)
    this.#suspects.delete(queue)
  }

  /** True: messages waited at a look `#patienceMs` ago and wait now, and none was received in between. */
  isMissed(queue: string, waiting: number, now: number): boolean {
    const beats = this.#beats.get(queue) ?? 0
    const suspect = this.#suspects.get(queue)
    if (waiting === 0) {
      this.#suspects.delete(queue)
      return false
    }
    if (suspect === undefined || suspect.beats !== beats) {
      this.#suspects.set(queue, { at: now, beats })
      return false
    }
    return now - suspect.at >= this.#patienceMs
  }
}
