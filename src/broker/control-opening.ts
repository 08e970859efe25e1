import { partOfHeap } from '../memory.ts'
import { type Door, Opening } from './opening.ts'

/** 32,000 questions of all control queues may be here, and each answer may be a whole job. */
const MAX_WAITING = 1_024
const MAX_WAITING_BYTES = partOfHeap(1 / 32, 32 * 1024 * 1024)

/**
 * Lets answers wait until they can be published. The consume connection often comes back first after a loss,
 * so that questions arrive before the publish connection is open. A worker that gets no answer after its
 * reconnect runs what it should not, or consumes a paused queue.
 */
export class ControlOpening {
  readonly #opening = new Opening()
  #bytes = 0

  get waiting(): number {
    return this.#opening.waiting
  }

  /** A publisher was opened: each waiting answer checks whether it is its own. */
  opened(): void {
    this.#opening.opened()
  }

  /** False: the door is not open after `ms`, or too much is waiting to add `bytes` more. */
  async untilOpen(door: Door, bytes: number, ms: number): Promise<boolean> {
    if (door.isOpen) return true
    if (this.waiting >= MAX_WAITING || this.#bytes + bytes > MAX_WAITING_BYTES) return false
    this.#bytes += bytes
    const isOpen = await this.#opening.untilOpen(door, ms)
    this.#bytes -= bytes
    return isOpen
  }
}
