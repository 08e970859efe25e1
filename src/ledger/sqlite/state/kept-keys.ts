/** The unique keys of pruned jobs, kept for as long as their policies say. */
import type { JobState } from '../../../job/job.ts'
import { storedTerms } from '../../../job/unique.ts'
import type { KeyHolder } from '../../enqueued.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

/** How many keys are kept, of some 250 bytes each on the disk. */
const MAX_KEYS = 10_000_000

/**
 * The unique keys of pruned jobs. A job's own policy decides whether its key is kept, and until when: it must
 * name the state in which the job ended, and have a period that is not over. With the default states an
 * ended job conflicts with no other, so mostly there is none, and then no PUSH pays for it.
 */
export class KeptKeys {
  readonly #statements: Statements
  readonly #capacity: number
  /** False: there is none. Stays true once there was one, also if the write that kept it is undone. */
  #hasAny: boolean

  constructor(statements: Statements, capacity: number = MAX_KEYS) {
    this.#statements = statements
    this.#capacity = capacity
    this.#hasAny = this.#count > 0
  }

  /** The pruned job that conflicts by the policy of a new one. `createdAfter`: where its period begins. */
  find(
    key: string,
    states: readonly JobState[],
    createdAfter: number,
    now: number,
  ): KeyHolder | undefined {
    if (!this.#hasAny) return undefined
    const kept = this.#statements.keptKeys.all(key, now)
    const found = kept.find((row) => row.createdAt > createdAfter && states.includes(row.state))
    return found && { id: found.id, state: found.state, isGone: true }
  }

  /** Inside the write that prunes the row. */
  keep(seq: number, state: JobState, now: number): void {
    const row = this.#statements.policyOf.get(seq)
    if (row === undefined) return
    const periodMs = periodIn(row.terms, state)
    if (periodMs === null || row.createdAt + periodMs <= now) return
    const until = row.createdAt + periodMs
    this.#statements.keepKey.run(row.key, state, row.id, row.createdAt, until)
    this.#hasAny = true
  }

  /** Forgets keys whose period is over, and beyond the capacity those whose period ends first. */
  prune(now: number, limit: number): number {
    if (!this.#hasAny) return 0
    const { pruneKeptKeys } = this.#statements
    const { changes } = pruneKeptKeys.run(now, limit)
    const excess = Math.min(limit - changes, this.#count - this.#capacity)
    if (excess <= 0) return changes
    return changes + pruneKeptKeys.run(Number.MAX_SAFE_INTEGER, excess).changes
  }

  get #count(): number {
    return onlyRow(this.#statements.countKeptKeys.get()).count
  }
}

/** The period of a policy that names the state. A policy of an earlier build must not stop retention. */
function periodIn(terms: string, state: JobState): number | null {
  try {
    const { periodMs, states } = storedTerms(terms)
    return states.includes(state) ? periodMs : null
  } catch {
    return null
  }
}
