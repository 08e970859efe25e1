/** Remembers jobs that are larger than RabbitMQ's `max_message_size`. */
import type { JobRow } from '../job/job.ts'

const MAX_IDS = 1_000

interface Tried {
  since: number
  last: number
}

/** Jobs whose message is larger than RabbitMQ's `max_message_size`. They wait until that limit is raised. */
export class TooLargeJobs {
  readonly #staleMs: number
  /** Ids of the jobs that were logged already. */
  readonly #ids = new Set<string>()
  /** By queue: since when one of its jobs is refused, and when one was tried last. */
  readonly #tried = new Map<string, Tried>()

  /** After `staleMs` without a try, a queue's jobs count as gone: they were cancelled, or sent after all. */
  constructor(staleMs: number) {
    this.#staleMs = staleMs
  }

  /** Notes that RabbitMQ refused the job. Returns true for the first refusal of this job. */
  refused({ id, queue }: Pick<JobRow, 'id' | 'queue'>, now: number): boolean {
    const before = this.#tried.get(queue)
    const since = before && this.#isFresh(before, now) ? before.since : now
    this.#tried.set(queue, { since, last: now })
    if (this.#ids.has(id)) return false
    if (this.#ids.size >= MAX_IDS) this.#ids.clear()
    this.#ids.add(id)
    return true
  }

  /** The queues that have such a job, and since when. */
  waiting(now: number): [queue: string, since: number][] {
    return [...this.#tried]
      .filter(([, tried]) => this.#isFresh(tried, now))
      .map(([queue, { since }]) => [queue, since])
  }

  #isFresh({ last }: Tried, now: number): boolean {
    return now - last <= this.#staleMs
  }
}
