import type { TakeRequest } from '../../broker/broker.ts'
import type { Clock } from '../../clock.ts'
import type { JobRow } from '../../job/job.ts'

/** A queue full of tokens of cancelled jobs must not keep one request busy for ever. */
const MAX_SIFTING_MS = 1_000

export interface Wish {
  queues: readonly string[]
  count: number
  waitMs: number
}

/** What one round of a FETCH brought. */
export interface Round {
  jobs: JobRow[]
  /** Of all bodies, those that are no jobs too: what an answer may hold is no matter of exactness. */
  bytes: number
}

/** The jobs of one FETCH as its rounds bring them, and what the next round may bring. */
export class Fetched {
  readonly #wish: Wish
  readonly #clock: Clock
  readonly #startedAt: number
  #jobs: JobRow[] = []
  #bytes = 0
  #until: number

  constructor(wish: Wish, clock: Clock) {
    this.#wish = wish
    this.#clock = clock
    this.#startedAt = clock.now()
    this.#until = this.#startedAt + Math.max(wish.waitMs, MAX_SIFTING_MS)
  }

  /** Of queues from left to right. */
  get jobs(): JobRow[] {
    return this.#jobs
  }

  get hasSome(): boolean {
    return this.#jobs.length > 0
  }

  /** It has all that it wants, or has looked for long enough. */
  get isOver(): boolean {
    return this.#jobs.length >= this.#wish.count || this.#clock.now() > this.#until
  }

  /** What is left of the wish: who has a job waits for no other. */
  next(): Pick<TakeRequest, 'queues' | 'count' | 'waitMs' | 'takenBytes'> {
    const { queues, count, waitMs } = this.#wish
    const left = { queues, count: count - this.#jobs.length }
    if (this.hasSome) return { ...left, waitMs: 0, takenBytes: this.#bytes }
    return { ...left, waitMs: Math.max(0, waitMs - (this.#clock.now() - this.#startedAt)) }
  }

  add({ jobs, bytes }: Round): void {
    // Of rounds without a job nothing is kept.
    if (jobs.length === 0 && !this.hasSome) return
    if (!this.hasSome) this.#until = this.#clock.now() + MAX_SIFTING_MS
    this.#bytes += bytes
    this.#jobs = this.hasSome ? this.#inOrder([...this.#jobs, ...jobs]) : jobs
  }

  /** A later round may have one of an earlier queue. */
  #inOrder(jobs: JobRow[]): JobRow[] {
    const { queues } = this.#wish
    return jobs.sort((a, b) => queues.indexOf(a.queue) - queues.indexOf(b.queue))
  }
}
