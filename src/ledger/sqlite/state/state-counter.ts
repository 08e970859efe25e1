/** How many jobs of each state a queue has: kept, never counted. */
import { isWaitingWithNative } from '../../../job/arrival.ts'
import { isHeldByKey } from '../../../job/concurrency.ts'
import {
  isErased,
  JOB_STATES,
  type JobRow,
  type JobState,
  type RowState,
} from '../../../job/job.ts'
import type { StateCounts } from '../../known.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { Counted, CountRow, Statements } from '../sql/statements.ts'

const COUNTED: readonly Counted[] = [...JOB_STATES, 'dead_letter', 'with_native', 'held']

type Counts = Record<Counted, number>

interface Move {
  queue: string
  from: Counted | null
  to: Counted | null
}

/** A queue whose counts the group forgets where all of them are 0. */
type Forgotten = string

/** All counts, by queue. */
export interface Recount {
  states: Map<string, StateCounts>
  deadLetters: Map<string, number>
  claimable: Map<string, number>
  held: Map<string, number>
  /** Active jobs by concurrency key: as kept, and as counted. */
  keys: { kept: Map<string, number>; counted: Map<string, number> }
}

/**
 * How many jobs of each state a queue has. Kept by every write and never counted, so that reading costs the
 * same at ten rows and at ten million. Erased rows are no jobs, and are in no count.
 */
export class StateCounter extends NotedState<Move | Forgotten> {
  readonly #statements: Statements
  /** As committed. */
  readonly #kept: Map<string, Counts>
  /** The queues that the group changes, with their counts after it. */
  #changed = new Map<string, Counts>()
  #forgotten: Forgotten[] = []

  constructor(statements: Statements) {
    super()
    this.#statements = statements
    this.#kept = toCounts(statements.stateCounts.all())
  }

  /** Inside a write: one job moves between states. Null `from`: it is new; null `to`: it is gone. */
  moved(queue: string, from: Counted | null, to: Counted | null): void {
    this.notes.add({ queue, from, to })
  }

  /** The queues that have counts. */
  queues(): Iterable<string> {
    return this.#kept.keys()
  }

  /** The queues that have counts, all of them 0. */
  empty(): string[] {
    return [...this.#kept].filter(([, counts]) => isEmpty(counts)).map(([queue]) => queue)
  }

  /** Inside a write: forgets the counts of the queue if they are 0 after the group. */
  forget(queue: string): void {
    this.notes.add(queue)
  }

  /**
   * Inside a write: `row` (as it was before) moves on. If a native worker still had its job message,
   * or its concurrency key held it back: one less.
   */
  left(queue: string, row: Pick<JobRow, 'state' | 'holder'>): void {
    if (isWaitingWithNative(row)) this.moved(queue, 'with_native', null)
    else if (isHeldByKey(row)) this.moved(queue, 'held', null)
  }

  /** How many jobs are available whose message may come: a native worker may have it, or no message is out. */
  claimable(queue: string): number {
    const counts = this.#kept.get(queue)
    return counts ? claimableOf(counts) : 0
  }

  /** How many available jobs their concurrency keys hold back. */
  held(queue: string): number {
    return this.#kept.get(queue)?.held ?? 0
  }

  of(queue: string): StateCounts {
    return statesOf(this.#kept.get(queue) ?? NONE)
  }

  /** The number of dead letters of one queue, or of all (null). */
  deadLetters(queue: string | null): number {
    if (queue !== null) return this.#kept.get(queue)?.dead_letter ?? 0
    let total = 0
    for (const counts of this.#kept.values()) total += counts.dead_letter
    return total
  }

  /** Counts every queue row by row. The kept counts must be equal. */
  recount(): Recount {
    const counted = [...toCounts(this.#statements.recount.all())]
    const mapped = <T>(of: (counts: Counts) => T) =>
      new Map(counted.map(([queue, counts]) => [queue, of(counts)]))
    return {
      states: mapped(statesOf),
      deadLetters: mapped(({ dead_letter }) => dead_letter),
      claimable: mapped(claimableOf),
      held: mapped(({ held }) => held),
      keys: {
        kept: activeOf(this.#statements.activeByKey.all()),
        counted: activeOf(this.#statements.recountKeys.all()),
      },
    }
  }

  override store(): void {
    for (const note of this.notes.all) {
      if (typeof note === 'string') this.#forgotten.push(note)
      else this.#move(note)
    }
    for (const [queue, counts] of this.#changed) this.#storeQueue(queue, counts)
    for (const queue of this.#forgotten) {
      if (this.#isEmptyNow(queue)) this.#statements.forgetCounts.run(queue)
    }
  }

  protected override apply(): void {
    for (const [queue, counts] of this.#changed) this.#kept.set(queue, counts)
    for (const queue of this.#forgotten) if (this.#isEmptyNow(queue)) this.#kept.delete(queue)
  }

  override discard(): void {
    super.discard()
    if (this.#changed.size > 0) this.#changed = new Map()
    if (this.#forgotten.length > 0) this.#forgotten = []
  }

  #move({ queue, from, to }: Move): void {
    let counts = this.#changed.get(queue)
    if (!counts) {
      counts = { ...(this.#kept.get(queue) ?? NONE) }
      this.#changed.set(queue, counts)
    }
    if (from) counts[from]--
    if (to) counts[to]++
  }

  #isEmptyNow(queue: string): boolean {
    return isEmpty(this.#changed.get(queue) ?? this.#kept.get(queue) ?? NONE)
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
  held: 0,
}

function isEmpty(counts: Readonly<Counts>): boolean {
  return COUNTED.every((state) => counts[state] === 0)
}

/** The state that a row counts as; null for an erased row, which is no job. */
export function counted(state: RowState): JobState | null {
  return isErased(state) ? null : state
}

function claimableOf({ available, with_native, held }: Readonly<Counts>): number {
  return available - with_native - held
}

function statesOf({
  dead_letter: _,
  with_native: __,
  held: ___,
  ...states
}: Readonly<Counts>): StateCounts {
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

function activeOf(rows: readonly { key: string; active: number }[]): Map<string, number> {
  return new Map(rows.map(({ key, active }) => [key, active]))
}
