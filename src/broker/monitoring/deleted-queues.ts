/** Was a publish nacked because its queue is full, or because it was deleted? */
import type { Presence } from '../broker.ts'

/** A queue found missing longer ago than this has been declared again by now. */
const RECENT_MS = 5_000
/** How long RabbitMQ's answer is reused: a full queue nacks thousands of publishes a second. */
const BELIEVED_MS = 1_000

export interface DeletedQueuesDeps {
  /** Clock time. */
  now(): number
  probe(queue: string): Promise<Presence>
}

/**
 * RabbitMQ nacks a publish both when the queue is full and when the queue is deleted meanwhile, without
 * saying which. This class tells the two apart.
 */
export class DeletedQueues {
  readonly #deps: DeletedQueuesDeps
  /** By queue; both are bounded by the number of known queues. Clock time. */
  readonly #missedAt = new Map<string, number>()
  readonly #answers = new Map<string, { at: number; isGone: Promise<boolean> }>()

  constructor(deps: DeletedQueuesDeps) {
    this.#deps = deps
  }

  forget(queue: string): void {
    this.#missedAt.delete(queue)
    this.#answers.delete(queue)
  }

  /** The queue was looked for and does not exist. */
  missed(queue: string): void {
    this.#missedAt.set(queue, this.#deps.now())
  }

  /** True when the queue is gone, or was a moment ago. */
  async isGone(queue: string): Promise<boolean> {
    const now = this.#deps.now()
    const known = this.#answers.get(queue)
    const answer =
      known && now - known.at < BELIEVED_MS ? known : { at: now, isGone: this.#look(queue) }
    this.#answers.set(queue, answer)
    return (await answer.isGone) || this.#isRecent(queue)
  }

  async #look(queue: string): Promise<boolean> {
    if (this.#isRecent(queue)) return true
    return (await this.#deps.probe(queue)) === 'missing'
  }

  #isRecent(queue: string): boolean {
    const missedAt = this.#missedAt.get(queue)
    return missedAt !== undefined && this.#deps.now() - missedAt < RECENT_MS
  }
}
