import type { JobRow, JobState, RowState } from '../../../job/job.ts'
import { storedTerms } from '../../../job/unique.ts'
import type { KeyHolder } from '../../enqueued.ts'
import { type Database, onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

/** How many keys are kept, of some 250 bytes each on the disk. */
const MAX_KEYS = 10_000_000

export interface KeptRow extends Pick<JobRow, 'id' | 'createdAt'> {
  state: JobState
}

/** A row that is about to be pruned, with what its policy says in JSON. */
export interface PolicyRow extends Pick<JobRow, 'id' | 'createdAt'> {
  key: string
  terms: string
}

export function prepareKeptKeys(db: Database) {
  return {
    keptKeys: db.prepare<[key: string, now: number], KeptRow>(
      `SELECT job_id AS id, state, created_at AS createdAt FROM kept_keys
       WHERE key = ? AND until > ?`,
    ),
    /** Of two jobs of a key, the one whose period ends later. */
    keepKey: db.prepare<
      [key: string, state: RowState, id: string, createdAt: number, until: number]
    >(
      `INSERT INTO kept_keys (key, state, job_id, created_at, until) VALUES (?1, ?2, ?3, ?4, ?5)
       ON CONFLICT (key, state) DO UPDATE
       SET job_id = excluded.job_id, created_at = excluded.created_at, until = excluded.until
       WHERE excluded.until >= until`,
    ),
    policyOf: db.prepare<[seq: number], PolicyRow>(
      `SELECT id, unique_key AS key, created_at AS createdAt,
         json_object('unique', json_extract(envelope, '$.unique'),
           'unique_extra', json_extract(envelope, '$.unique_extra')) AS terms
       FROM jobs WHERE seq = ? AND unique_key IS NOT NULL`,
    ),
    countKeptKeys: db.prepare<[], { count: number }>(
      `SELECT value AS count FROM settings WHERE name = 'kept_keys'`,
    ),
    pruneKeptKeys: db.prepare<[until: number, limit: number]>(
      `DELETE FROM kept_keys WHERE (key, state) IN (
         SELECT key, state FROM kept_keys WHERE until <= ?1 ORDER BY until LIMIT ?2)`,
    ),
    /** Keys of jobs created after `now`, by a clock that was ahead: their period begins now. */
    boundKeptKeys: db.prepare<[now: number]>(
      `UPDATE kept_keys SET until = until - (created_at - ?1), created_at = ?1
       WHERE until > ?1 AND created_at > ?1`,
    ),
  }
}

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
