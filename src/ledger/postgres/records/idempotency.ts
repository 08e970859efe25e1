/** Answers of requests with an `Idempotency-Key`. */
import {
  IDEMPOTENCY_MS,
  type IdempotencyMemory,
  type KeyedRequest,
  type Remembered,
} from '../../idempotency.ts'
import type { IdempotencyReads } from '../../reads.ts'
import { MAX_KEYS, type RememberedKeys } from '../../writes/remembered.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import { type SideTable, type SideWant, selectSide, wanted } from '../group/side.ts'
import type { PartDeps } from '../part.ts'
import type { Reader } from '../reader.ts'

/** `ids`, `existing`: JSON of those of `Remembered`. */
interface KeptAnswer {
  fingerprint: string
  ids: string
  existing: string
  createdAt: number
}

export const IDEMPOTENCY_KEYS: SideTable<KeptAnswer> = {
  name: 'idempotency_keys',
  key: 'key',
  columns: { fingerprint: 'text', ids: 'text', existing: 'text', createdAt: 'bigint' },
  // A key that is used again becomes the newest.
  renewed: 'seq',
}

export class PostgresIdempotency implements IdempotencyMemory, IdempotencyReads {
  readonly #groups: Groups
  readonly #reader: Reader
  readonly #schema: string
  readonly #capacity: number

  constructor({ groups, reader, schema }: PartDeps, capacity: number = MAX_KEYS) {
    this.#groups = groups
    this.#reader = reader
    this.#schema = schema
    this.#capacity = capacity
  }

  async find(key: string, now: number): Promise<Remembered | null> {
    const text = `${selectSide(this.#schema, IDEMPOTENCY_KEYS)} WHERE key = $1`
    const [row] = await this.#reader.rows(text, [key])
    return rememberedIn((row as KeptAnswer | undefined) ?? null, now)
  }

  prune(now: number, limit: number): Promise<number> {
    const run = (draft: Draft) => prune(draft, now, this.#capacity, limit)
    return this.#groups.write({ wants: {}, run, isAlone: true, weight: limit })
  }
}

/** What a write of the request reads. */
export function keyWanted({ key }: KeyedRequest): { sides: SideWant[] } {
  return { sides: [wanted(IDEMPOTENCY_KEYS, [key])] }
}

/** The keys as a write sees them. */
export function keysOf(draft: Draft): RememberedKeys {
  return {
    find: (key, now) => rememberedIn(draft.side(IDEMPOTENCY_KEYS, key), now),
    remember: ({ key, fingerprint }, { ids, existing }, now) => {
      const texts = { ids: JSON.stringify(ids), existing: JSON.stringify(existing) }
      draft.putSide(IDEMPOTENCY_KEYS, key, { fingerprint, ...texts, createdAt: now })
    },
  }
}

function rememberedIn(answer: KeptAnswer | null, now: number): Remembered | null {
  if (answer === null || answer.createdAt <= now - IDEMPOTENCY_MS) return null
  const { fingerprint, ids, existing } = answer
  return { fingerprint, ids: JSON.parse(ids), existing: JSON.parse(existing) }
}

function prune(draft: Draft, now: number, capacity: number, limit: number): number {
  const table = `${draft.schema}.idempotency_keys`
  const text = `DELETE FROM ${table} WHERE seq IN (SELECT seq FROM ${table} ORDER BY seq LIMIT $3)
    AND (created_at <= $1 OR seq <= (SELECT max(seq) FROM ${table}) - $2)`
  return draft.execute(text, [now - IDEMPOTENCY_MS, capacity, limit])
}

/** Keys that were used after `now` (the clock was set back) count from now. */
export function boundAnswers(draft: Draft, now: number): void {
  const table = `${draft.schema}.idempotency_keys`
  const text = `UPDATE ${table} SET created_at = $1 WHERE seq > coalesce(
    (SELECT seq FROM ${table} WHERE created_at <= $1 ORDER BY seq DESC LIMIT 1), 0)`
  draft.execute(text, [now])
}
