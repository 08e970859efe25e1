/** Answers of requests with an `Idempotency-Key`, stored with their jobs. */
import {
  IDEMPOTENCY_MS,
  type IdempotencyMemory,
  type KeyedRequest,
  type Remembered,
} from '../../idempotency.ts'
import type { IdempotencyReads } from '../../reads.ts'
import { type Answer, MAX_KEYS, type RememberedKeys } from '../../writes/remembered.ts'
import type { Access } from '../commit/access.ts'
import type { Statements } from '../sql/statements.ts'

/** See `IdempotencyMemory`. */
export class SqliteIdempotency implements IdempotencyMemory, IdempotencyReads {
  readonly #access: Access
  readonly #statements: Statements
  readonly #capacity: number

  constructor(access: Access, statements: Statements, capacity: number = MAX_KEYS) {
    this.#access = access
    this.#statements = statements
    this.#capacity = capacity
  }

  find(key: string, now: number): Promise<Remembered | null> {
    return this.#access.ask(() => rememberedKey(this.#statements, key, now))
  }

  prune(now: number, limit: number): Promise<number> {
    const { pruneKeys } = this.#statements
    return this.#access.write(
      () => pruneKeys.run(now - IDEMPOTENCY_MS, this.#capacity, limit).changes,
    )
  }
}

/** Finds a key that is not older than a day. Inside a write, it sees the write's own changes. */
export function rememberedKey(statements: Statements, key: string, now: number): Remembered | null {
  const row = statements.rememberedKey.get(key, now - IDEMPOTENCY_MS)
  if (!row) return null
  const { fingerprint, jobs, existing } = row
  return { fingerprint, ids: JSON.parse(jobs), existing: JSON.parse(existing) }
}

/** The keys as a write sees them, which is to be protected. */
export function keysOf(statements: Statements): RememberedKeys {
  return {
    find: (key, now) => rememberedKey(statements, key, now),
    remember: (...remembered) => rememberKey(statements, ...remembered),
  }
}

/** Stores a key and its answer. Inside the write that stores the jobs of the request. */
export function rememberKey(
  statements: Statements,
  { key, fingerprint }: KeyedRequest,
  { ids, existing }: Answer,
  now: number,
): void {
  statements.rememberKey.run(key, fingerprint, JSON.stringify(ids), JSON.stringify(existing), now)
}
