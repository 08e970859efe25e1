import { partOfHeap } from '../memory.ts'
import { type Door, Opening } from './opening.ts'

/** Of all control queues 32,000 questions may be here, and an answer may be a whole job. */
const MAX_WAITING = 1_024
const MAX_WAITING_BYTES = partOfHeap(1 / 32, 32 * 1024 * 1024)

/**
 * Answers that wait until they can be published. Questions are heard as soon as the connection of the
 * consumers is back, and that is often the first: who asks after a reconnect, and hears nothing, runs
 * what it should not, or consumes a queue that is paused.
 */
export class ControlOpening {
  readonly #opening = new Opening()
  #bytes = 0

  get waiting(): number {
    return this.#opening.waiting
  }

  /** Something was opened: each looks whether it is what it waits for. */
  opened(): void {
    this.#opening.opened()
  }

  /** False: it is not open after `ms`, or too much waits already for `bytes` more. */
  async untilOpen(door: Door, bytes: number, ms: number): Promise<boolean> {
    if (door.isOpen) return true
    if (this.waiting >= MAX_WAITING || this.#bytes + bytes > MAX_WAITING_BYTES) return false
    this.#bytes += bytes
    const isOpen = await this.#opening.untilOpen(door, ms)
    this.#bytes -= bytes
    return isOpen
  }
}
