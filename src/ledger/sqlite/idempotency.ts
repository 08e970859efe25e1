import {
  IDEMPOTENCY_MS,
  type IdempotencyMemory,
  type KeyedRequest,
  type Remembered,
} from '../idempotency.ts'
import type { Access } from './access.ts'
import type { Statements } from './statements.ts'

/** How many keys are kept, of some 200 bytes each. Judged by their sequence numbers, which spares a count. */
const MAX_KEYS = 10_000_000

/** See `IdempotencyMemory`. */
export class SqliteIdempotency implements IdempotencyMemory {
  readonly #access: Access
  readonly #statements: Statements
  readonly #capacity: number

  constructor(access: Access, statements: Statements, capacity: number = MAX_KEYS) {
    this.#access = access
    this.#statements = statements
    this.#capacity = capacity
  }

  find(key: string, now: number): Remembered | null {
    return this.#access.read(() => rememberedKey(this.#statements, key, now))
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
  return { fingerprint, jobs: JSON.parse(jobs), existing: JSON.parse(existing) }
}

/** Stores a key and its answer. Inside the write that stores the jobs of the request. */
export function rememberKey(
  statements: Statements,
  { key, fingerprint }: KeyedRequest,
  { jobs, existing }: Omit<Remembered, 'fingerprint'>,
  now: number,
): void {
  statements.rememberKey.run(key, fingerprint, JSON.stringify(jobs), JSON.stringify(existing), now)
}
