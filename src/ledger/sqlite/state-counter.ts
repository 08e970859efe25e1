import { isWaitingWithNative } from '../../job/arrival.ts'
import { isErased, JOB_STATES, type JobRow, type JobState, type RowState } from '../../job/job.ts'
import type { StateCounts } from '../ledger.ts'
import type { Companion } from './companion.ts'
import { Notes } from './notes.ts'
import type { Counted, CountRow, Statements } from './statements.ts'

const COUNTED: readonly Counted[] = [...JOB_STATES, 'dead_letter', 'with_native']

type Counts = Record<Counted, number>

interface Move {
  queue: string
  from: Counted | null
  to: Counted | null
}

/** By queue. */
export interface Recount {
  states: Map<string, StateCounts>
  deadLetters: Map<string, number>
  claimable: Map<string, number>
}

/**
 * How many jobs of each state a queue has: kept, never counted, so that it costs the same at ten
 * rows and at ten million. Rows that are erased are nobody's jobs and in no count.
 */
export class StateCounter implements Companion {
  readonly #statements: Statements
  /** As committed. */
  readonly #kept: Map<string, Counts>
  readonly #moves = new Notes<Move>()
  /** The queues that the group changes, with their counts after it. */
  #changed = new Map<string, Counts>()

  constructor(statements: Statements) {
    this.#statements = statements
    this.#kept = toCounts(statements.stateCounts.all())
  }

  /** The running write moves one job between states; null: a job that appears or goes. */
  moved(queue: string, from: Counted | null, to: Counted | null): void {
    this.#moves.add({ queue, from, to })
  }

  /** The same for the jobs that end up in `discarded`, some of them as dead letters. */
  discarded(job: Pick<JobRow, 'queue' | 'isDeadLetter'>, from: JobState | null): void {
    this.moved(job.queue, from, 'discarded')
    if (job.isDeadLetter) this.moved(job.queue, null, 'dead_letter')
  }

  /** The row leaves the state that it is given in: one less is waiting with a native worker. */
  left(queue: string, row: Pick<JobRow, 'state' | 'holder'>): void {
    if (isWaitingWithNative(row)) this.moved(queue, 'with_native', null)
  }

  /** Available, and with a token that somebody may get. */
  claimable(queue: string): number {
    const counts = this.#kept.get(queue)
    return counts ? counts.available - counts.with_native : 0
  }

  of(queue: string): StateCounts {
    return statesOf(this.#kept.get(queue) ?? NONE)
  }

  /** Of one queue, or of all. */
  deadLetters(queue: string | null): number {
    if (queue !== null) return this.#kept.get(queue)?.dead_letter ?? 0
    let total = 0
    for (const counts of this.#kept.values()) total += counts.dead_letter
    return total
  }

  /** Every queue counted row by row: what the others must say. */
  recount(): Recount {
    const counted = [...toCounts(this.#statements.recount.all())]
    const mapped = <T>(of: (counts: Counts) => T) =>
      new Map(counted.map(([queue, counts]) => [queue, of(counts)]))
    return {
      states: mapped(statesOf),
      deadLetters: mapped(({ dead_letter }) => dead_letter),
      claimable: mapped(({ available, with_native }) => available - with_native),
    }
  }

  keep(): void {
    this.#moves.keep()
  }

  undo(): void {
    this.#moves.undo()
  }

  store(): void {
    for (const { queue, from, to } of this.#moves.all) {
      let counts = this.#changed.get(queue)
      if (!counts) {
        counts = { ...(this.#kept.get(queue) ?? NONE) }
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
    this.#moves.discard()
    if (this.#changed.size > 0) this.#changed = new Map()
  }

  #storeQueue(queue: string, counts: Counts): void {
    const before = this.#kept.get(queue) ?? NONE
    for (const state of COUNTED) {
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
  dead_letter: 0,
  with_native: 0,
}

/** What a row counts as: one that is erased is nobody's job. */
export function counted(state: RowState): JobState | null {
  return isErased(state) ? null : state
}

function statesOf({ dead_letter: _, with_native: __, ...states }: Readonly<Counts>): StateCounts {
  return states
}

function toCounts(rows: readonly CountRow[]): Map<string, Counts> {
  const byQueue = new Map<string, Counts>()
  for (const { queue, state, count } of rows) {
    if (state === 'withdrawn') continue
    const counts = byQueue.get(queue) ?? { ...NONE }
    counts[state] = count
    byQueue.set(queue, counts)
  }
  return byQueue
}
