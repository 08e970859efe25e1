/** The jobs that one FETCH has collected over its rounds, and what it still wants. */
import type { TakeRequest } from '../../broker/broker.ts'
import type { Clock } from '../../clock.ts'
import type { JobRow } from '../../job/job.ts'

/** Ends a FETCH that finds nothing but job messages of cancelled or ended jobs. */
const MAX_SIFTING_MS = 1_000

export interface Wish {
  queues: readonly string[]
  count: number
  waitMs: number
}

/** What one round of a FETCH brought. */
export interface Round {
  jobs: JobRow[]
  /** Total size of all bodies, also of those that were no jobs: an estimate is enough to bound an answer. */
  bytes: number
}

/** Collects the jobs of one FETCH over its rounds, and says what to ask for in the next round. */
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

  /** In the order of the requested queues. */
  get jobs(): JobRow[] {
    return this.#jobs
  }

  get hasSome(): boolean {
    return this.#jobs.length > 0
  }

  /** True when `count` jobs are there or the time is up. */
  get isOver(): boolean {
    return this.#jobs.length >= this.#wish.count || this.#clock.now() > this.#until
  }

  /** What the next round asks for. A FETCH that has a job no longer waits for others. */
  next(): Pick<TakeRequest, 'queues' | 'count' | 'waitMs' | 'takenBytes'> {
    const { queues, count, waitMs } = this.#wish
    const left = { queues, count: count - this.#jobs.length }
    if (this.hasSome) return { ...left, waitMs: 0, takenBytes: this.#bytes }
    return { ...left, waitMs: Math.max(0, waitMs - (this.#clock.now() - this.#startedAt)) }
  }

  add({ jobs, bytes }: Round): void {
    // Rounds before the first job change nothing: they end by the time limit of the constructor.
    if (jobs.length === 0 && !this.hasSome) return
    if (!this.hasSome) this.#until = this.#clock.now() + MAX_SIFTING_MS
    this.#bytes += bytes
    this.#jobs = this.hasSome ? this.#inOrder([...this.#jobs, ...jobs]) : jobs
  }

  /** Sorts by queue again: a later round may bring a job of an earlier queue. */
  #inOrder(jobs: JobRow[]): JobRow[] {
    const { queues } = this.#wish
    return jobs.sort((a, b) => queues.indexOf(a.queue) - queues.indexOf(b.queue))
  }
}
