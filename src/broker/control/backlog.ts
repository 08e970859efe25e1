/** Have the reports that waited when consuming began been handled? */
import type { Clock } from '../../clock.ts'

/** A backlog that takes longer must not hold dead workers' jobs back for ever (docs/architecture.md §2). */
const MAX_MS = 60_000
/** Timers and the clock may differ slightly. */
const SLACK_MS = 100

/**
 * Tracks whether the messages that waited in the control queues when consuming began have been settled.
 * Reports among them may be about jobs that look abandoned.
 */
export class ControlBacklog {
  readonly #clock: Clock
  readonly #onConsumed: () => void
  /** By queue: messages still to settle; null until the queue's depth is known. */
  readonly #left = new Map<string, number | null>()
  /** When consuming began; null: nothing is consumed at the moment. */
  #since: number | null = null
  #isListComplete = false
  #isTold = false
  #timer: NodeJS.Timeout | undefined

  /** `onConsumed`: called once after each `begin`, at the latest after `MAX_MS`. */
  constructor(clock: Clock, onConsumed: () => void) {
    this.#clock = clock
    this.#onConsumed = onConsumed
  }

  get isConsumed(): boolean {
    if (this.#since === null) return false
    const isDone = this.#isListComplete && this.#left.size === 0
    return isDone || this.#clock.now() - this.#since > MAX_MS
  }

  /** Consuming begins. `queues`: those known already. */
  begin(queues: Iterable<string>): void {
    this.#since = this.#clock.now()
    this.#left.clear()
    for (const queue of queues) this.#left.set(queue, null)
    this.#isTold = false
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#look(), MAX_MS + SLACK_MS)
    this.#timer.unref()
    this.#look()
  }

  end(): void {
    this.#since = null
    clearTimeout(this.#timer)
  }

  /** Every queue that was known from earlier runs has been checked. */
  listComplete(): void {
    this.#isListComplete = true
    this.#look()
  }

  /** A queue that becomes known before the list is complete may have a backlog too. */
  queueKnown(queue: string): void {
    if (!this.#isListComplete) this.#left.set(queue, null)
  }

  /** `messages`: how many were ready in the queue before it was consumed. */
  depth(queue: string, messages: number): void {
    if (this.#left.get(queue) !== null) return
    if (messages === 0) this.gone(queue)
    else this.#left.set(queue, messages)
  }

  /** Nobody can say yet what is left to settle. */
  isUnknown(queue: string): boolean {
    return this.#left.get(queue) === null
  }

  /** The queue is gone or empty: nothing of it is left to settle. */
  gone(queue: string): void {
    if (this.#left.delete(queue)) this.#look()
  }

  settled(queue: string): void {
    const left = this.#left.get(queue)
    if (left == null) return
    if (left === 1) this.gone(queue)
    else this.#left.set(queue, left - 1)
  }

  #look(): void {
    if (this.#isTold || !this.isConsumed) return
    this.#isTold = true
    clearTimeout(this.#timer)
    this.#onConsumed()
  }
}
