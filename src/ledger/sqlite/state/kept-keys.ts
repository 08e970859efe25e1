/** The unique keys of pruned jobs, kept for as long as their policies say. */
import type { JobState } from '../../../job/job.ts'
import type { KeyHolder } from '../../enqueued.ts'
import { keptHolder, keptUntil, MAX_KEPT_KEYS } from '../../writes/kept-keys.ts'
import type { KeyQuery } from '../../writes/unique.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

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

  constructor(statements: Statements, capacity: number = MAX_KEPT_KEYS) {
    this.#statements = statements
    this.#capacity = capacity
    this.#hasAny = this.#count > 0
  }

  /** The pruned job that conflicts by the policy of a new one. */
  find(query: KeyQuery, now: number): KeyHolder | undefined {
    if (!this.#hasAny) return undefined
    return keptHolder(this.#statements.keptKeys.all(query.key, now), query)
  }

  /** Inside the write that prunes the row. */
  keep(seq: number, state: JobState, now: number): void {
    const row = this.#statements.policyOf.get(seq)
    if (row === undefined) return
    const until = keptUntil(row.terms, { state, createdAt: row.createdAt }, now)
    if (until === null) return
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
