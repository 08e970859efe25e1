/** Queues of which every message must be claimed before its job runs. */

/**
 * `empty`: the queue had no messages at the last check. What was under way to this worker then has arrived by
 * the next review.
 */
type State = 'full' | 'asked' | 'empty'

/**
 * Queues of which every job message must be claimed before it runs, because more of their jobs were cancelled
 * than an answer to `sync` names (docs/architecture.md §5). A queue leaves the set after it was seen empty.
 */
export class ClaimedQueues {
  readonly #queues = new Map<string, { state: State }>()

  /** Adds a queue. The result of a check that began before has no effect on it. */
  add(queue: string): void {
    this.#queues.set(queue, { state: 'full' })
  }

  has(queue: string): boolean {
    return this.#queues.has(queue)
  }

  /**
   * Checks of each queue whether it is empty, and removes those that were empty at the review before.
   * `isEmpty` must not reject, and may take longer than the time between two reviews.
   */
  review(isEmpty: (queue: string) => Promise<boolean>): void {
    for (const [queue, known] of this.#queues) {
      if (known.state === 'empty') this.#queues.delete(queue)
      else if (known.state === 'full') {
        known.state = 'asked'
        void isEmpty(queue).then((is) => {
          known.state = is ? 'empty' : 'full'
        })
      }
    }
  }
}
