/** `empty`: seen so; what was on its way to us then has come by the next review. */
type State = 'full' | 'asked' | 'empty'

/**
 * Queues whose every token has to be claimed before it runs: more of their jobs were cancelled than
 * an answer to `sync` names (architecture §5). It ends for a queue that was seen empty.
 */
export class ClaimedQueues {
  readonly #queues = new Map<string, { state: State }>()

  /** From now on; an answer that is still awaited from before says nothing about it. */
  add(queue: string): void {
    this.#queues.set(queue, { state: 'full' })
  }

  has(queue: string): boolean {
    return this.#queues.has(queue)
  }

  /**
   * Asks for each whether it is empty, and forgets those that were at the review before. `isEmpty`
   * must not reject, and may take longer than the time between two reviews.
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
