import {
  IDEMPOTENCY_MS,
  type IdempotencyMemory,
  type KeyedRequest,
  type Remembered,
} from '../idempotency.ts'
import type { Access } from './access.ts'
import type { Statements } from './statements.ts'

/** Some 200 bytes each; by their sequence numbers, so that nobody has to count them. */
const MAX_KEYS = 10_000_000

/** The part of the ledger that knows requests by their `Idempotency-Key`. */
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

/** Inside a write it sees what the write has done. */
export function rememberedKey(statements: Statements, key: string, now: number): Remembered | null {
  const row = statements.rememberedKey.get(key, now - IDEMPOTENCY_MS)
  if (!row) return null
  const { fingerprint, jobs, existing } = row
  return { fingerprint, jobs: JSON.parse(jobs), existing: JSON.parse(existing) }
}

/** Inside the write that stores what the request asked for. */
export function rememberKey(
  statements: Statements,
  { key, fingerprint }: KeyedRequest,
  { jobs, existing }: Omit<Remembered, 'fingerprint'>,
  now: number,
): void {
  statements.rememberKey.run(key, fingerprint, JSON.stringify(jobs), JSON.stringify(existing), now)
}
