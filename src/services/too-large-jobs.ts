import type { JobRow } from '../job/job.ts'

const MAX_IDS = 1_000

interface Tried {
  since: number
  last: number
}

/** Jobs that RabbitMQ takes no message of (`max_message_size`): they wait until it takes larger ones. */
export class TooLargeJobs {
  readonly #staleMs: number
  /** Those that were told of. */
  readonly #ids = new Set<string>()
  /** When those of a queue were tried. */
  readonly #tried = new Map<string, Tried>()

  /** One that was not tried for `staleMs` waits no more: it is cancelled, or went after all. */
  constructor(staleMs: number) {
    this.#staleMs = staleMs
  }

  /** One was tried, and refused. True: it is news. */
  refused({ id, queue }: Pick<JobRow, 'id' | 'queue'>, now: number): boolean {
    const before = this.#tried.get(queue)
    const since = before && this.#isFresh(before, now) ? before.since : now
    this.#tried.set(queue, { since, last: now })
    if (this.#ids.has(id)) return false
    if (this.#ids.size >= MAX_IDS) this.#ids.clear()
    this.#ids.add(id)
    return true
  }

  /** The queues with one, and since when. */
  waiting(now: number): [queue: string, since: number][] {
    return [...this.#tried]
      .filter(([, tried]) => this.#isFresh(tried, now))
      .map(([queue, { since }]) => [queue, since])
  }

  #isFresh({ last }: Tried, now: number): boolean {
    return now - last <= this.#staleMs
  }
}
