/** Tells a consumer that hears nothing, though there is something to hear, from one that rests. */
export class Pulse {
  readonly #patienceMs: number
  readonly #beats = new Map<string, number>()
  /** Where messages were waiting at the last look: when, and how many had come until then. */
  readonly #suspects = new Map<string, { at: number; beats: number }>()

  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
  }

  beat(queue: string): void {
    this.#beats.set(queue, (this.#beats.get(queue) ?? 0) + 1)
  }

  /** True: messages were waiting a while ago, others or the same are now, and none came between. */
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
