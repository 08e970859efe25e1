import { JOB_STATES, type JobState } from '../../job/job.ts'
import type { StateCounts } from '../ledger.ts'
import type { Companion } from './companion.ts'
import type { Statements } from './statements.ts'

type Counts = Record<JobState, number>

interface Move {
  queue: string
  from: JobState | null
  to: JobState | null
}

interface CountRow {
  queue: string
  state: JobState | 'withdrawn'
  count: number
}

/**
 * How many jobs of each state a queue has: kept, never counted, so that it costs the same at ten
 * rows and at ten million. Withdrawn rows are nobody's jobs and in no count.
 */
export class StateCounter implements Companion {
  readonly #statements: Statements
  /** As committed. */
  readonly #kept: Map<string, Counts>
  #moves: Move[] = []
  #keptMoves = 0
  /** The queues that the group changes, with their counts after it. */
  #changed = new Map<string, Counts>()

  constructor(statements: Statements) {
    this.#statements = statements
    this.#kept = toCounts(statements.stateCounts.all())
  }

  /** The running write moves one job between states; null: a job that appears or goes. */
  moved(queue: string, from: JobState | null, to: JobState | null): void {
    this.#moves.push({ queue, from, to })
  }

  of(queue: string): StateCounts {
    return { ...(this.#kept.get(queue) ?? NONE) }
  }

  /** Every queue counted row by row, in the form of `all`: what the kept counts must say. */
  recount(): Map<string, StateCounts> {
    return toCounts(this.#statements.recount.all())
  }

  keep(): void {
    this.#keptMoves = this.#moves.length
  }

  undo(): void {
    this.#moves.length = this.#keptMoves
  }

  store(): void {
    for (const { queue, from, to } of this.#moves) {
      let counts = this.#changed.get(queue)
      if (!counts) {
        counts = this.of(queue)
        this.#changed.set(queue, counts)
      }
      if (from) counts[from]--
      if (to) counts[to]++
    }
    for (const [queue, counts] of this.#changed) this.#storeQueue(queue, counts)
  }

  commit(): void {
    for (const [queue, counts] of this.#changed) this.#kept.set(queue, counts)
    this.discard()
  }

  discard(): void {
    this.#moves = []
    this.#keptMoves = 0
    if (this.#changed.size > 0) this.#changed = new Map()
  }

  #storeQueue(queue: string, counts: Counts): void {
    const before = this.#kept.get(queue) ?? NONE
    for (const state of JOB_STATES) {
      if (counts[state] !== before[state]) {
        this.#statements.keepCount.run(queue, state, counts[state])
      }
    }
  }
}

const NONE: Readonly<Counts> = {
  available: 0,
  scheduled: 0,
  pending: 0,
  active: 0,
  retryable: 0,
  completed: 0,
  cancelled: 0,
  discarded: 0,
}

function toCounts(rows: unknown[]): Map<string, Counts> {
  const byQueue = new Map<string, Counts>()
  for (const { queue, state, count } of rows as CountRow[]) {
    if (state === 'withdrawn') continue
    const counts = byQueue.get(queue) ?? { ...NONE }
    counts[state] = count
    byQueue.set(queue, counts)
  }
  return byQueue
}
