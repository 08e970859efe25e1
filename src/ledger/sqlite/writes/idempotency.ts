/** Answers of requests with an `Idempotency-Key`, stored with their jobs. */
import {
  type AnsweredBefore,
  IDEMPOTENCY_MS,
  type IdempotencyMemory,
  type Keyed,
  type KeyedRequest,
  type Remembered,
} from '../../idempotency.ts'
import type { IdempotencyReads } from '../../reads.ts'
import type { Access } from '../commit/access.ts'
import type { Statements } from '../sql/statements.ts'

/** How many keys are kept, of some 200 bytes each. Judged by their sequence numbers, which spares a count. */
const MAX_KEYS = 10_000_000

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

/**
 * Does `store` unless the request was answered before. Inside a write, which it needs to have protected.
 * `answerOf`: what to remember; null: nothing was stored.
 */
export function unlessRemembered<T>(
  statements: Statements,
  { request, now }: Keyed,
  store: () => T,
  answerOf: (stored: T) => Omit<Remembered, 'fingerprint'> | null,
): T | AnsweredBefore {
  if (request === undefined) return store()
  const remembered = rememberedKey(statements, request.key, now)
  if (remembered) return { outcome: 'remembered', remembered }
  const stored = store()
  const answer = answerOf(stored)
  if (answer !== null) rememberKey(statements, request, answer, now)
  return stored
}

/** Stores a key and its answer. Inside the write that stores the jobs of the request. */
export function rememberKey(
  statements: Statements,
  { key, fingerprint }: KeyedRequest,
  { ids, existing }: Omit<Remembered, 'fingerprint'>,
  now: number,
): void {
  statements.rememberKey.run(key, fingerprint, JSON.stringify(ids), JSON.stringify(existing), now)
}
