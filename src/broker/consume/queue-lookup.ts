/** Does a queue that is fetched from exist? Asked passively: FETCH never declares. */
import type { Clock } from '../../clock.ts'
import type { Presence } from '../broker.ts'

/** How long a queue that was not found counts as absent. */
const ABSENT_MS = 1_000
/** Most lookups at a time: each costs a channel when the queue is missing, and clients name any queue. */
const MAX_RUNNING = 16
const MAX_ABSENT = 10_000

/** Finds out whether queues that are fetched from exist. FETCH never declares (docs/architecture.md §3). */
export class QueueLookup {
  readonly #ask: (queue: string) => Promise<Presence>
  readonly #clock: Clock
  readonly #running = new Set<string>()
  readonly #absentUntil = new Map<string, number>()

  constructor(ask: (queue: string) => Promise<Presence>, clock: Clock) {
    this.#ask = ask
    this.#clock = clock
  }

  /** False: a lookup is running, the queue was absent a moment ago, or too many lookups run. */
  isPossible(queue: string): boolean {
    if (this.#running.has(queue) || this.#running.size >= MAX_RUNNING) return false
    return (this.#absentUntil.get(queue) ?? 0) <= this.#clock.now()
  }

  async ask(queue: string): Promise<boolean> {
    this.#running.add(queue)
    let presence: Presence = 'unavailable'
    try {
      presence = await this.#ask(queue)
    } finally {
      this.#running.delete(queue)
      if (presence !== 'exists') this.#believeAbsent(queue)
    }
    return presence === 'exists'
  }

  forget(queue: string): void {
    this.#absentUntil.delete(queue)
  }

  forgetAll(): void {
    this.#absentUntil.clear()
  }

  prune(): void {
    const now = this.#clock.now()
    for (const [queue, until] of this.#absentUntil) {
      if (until <= now) this.#absentUntil.delete(queue)
    }
  }

  #believeAbsent(queue: string): void {
    if (this.#absentUntil.size >= MAX_ABSENT) this.#absentUntil.clear()
    this.#absentUntil.set(queue, this.#clock.now() + ABSENT_MS)
  }
}
