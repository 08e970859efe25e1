/** Who holds a unique key: what is loaded of it, and what the group's writes have changed. */
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { KeptKey } from '../../writes/kept-keys.ts'
import type { KeyQuery } from '../../writes/unique.ts'
import type { Row, Statement } from '../connection.ts'
import { withoutNul } from '../nul.ts'

/** `wall`: when it is; null: rows whose `expires_at` is past hold the key too. */
export interface HolderQuery extends KeyQuery {
  wall: number | null
}

export interface Holder {
  id: string
  /** Of its texts. */
  bytes: number
}

/** The first holders among the rows of the table; all of them, if there are fewer than `limit`. */
export interface Holders {
  limit: number
  found: readonly Holder[]
}

/** What tells two queries apart: not how many rows they ask for. */
export function holdersKey({ limit: _, ...query }: HolderQuery): string {
  return JSON.stringify(query)
}

/** Of several with the same key, the one that asks for most. */
export function widest(queries: readonly HolderQuery[]): HolderQuery[] {
  const byKey = new Map<string, HolderQuery>()
  for (const query of queries) {
    const key = holdersKey(query)
    if ((byKey.get(key)?.limit ?? 0) < query.limit) byKey.set(key, query)
  }
  return [...byKey.values()]
}

/**
 * No lock is taken: all groups of a ledger run through one slot, whose row is locked by their first statement
 * (`take_slot`), so that no other group can store a job between this look-up and the commit. With several slots
 * it would need `pg_advisory_xact_lock` of the sorted keys, in a statement before this one.
 */
export function readHolders(schema: string, queries: readonly HolderQuery[]): Statement {
  const text = `SELECT q.place, h.id, h.bytes
    FROM json_to_recordset($1) AS q (place int, key text, states text[], created_after bigint,
      besides text, wall bigint, most int)
    CROSS JOIN LATERAL (
      SELECT j.id, octet_length(b.envelope) + coalesce(octet_length(b.errors), 0) AS bytes
      FROM ${schema}.jobs j JOIN ${schema}.job_bodies b USING (id)
      WHERE j.unique_key = q.key AND j.state = ANY(q.states) AND j.created_at > q.created_after
        AND j.id <> q.besides
        AND NOT coalesce(j.expires_at <= q.wall AND j.ended_at IS NULL AND j.state <> 'active', false)
      LIMIT q.most) h`
  const asked = queries.map(({ createdAfter, limit, ...query }, place) => {
    return { place, created_after: createdAfter, most: limit, ...query }
  })
  return { text, values: [JSON.stringify(asked)] }
}

export function holdersOf(queries: readonly HolderQuery[], rows: readonly Row[]) {
  const all: Holder[][] = queries.map(() => [])
  for (const { place, id, bytes } of rows) all[place]?.push({ id, bytes })
  return queries.map(
    (query, i) => [holdersKey(query), { limit: query.limit, found: all[i] ?? [] }] as const,
  )
}

/** Does the row, as a write has left it, hold the key? */
export function isHolder(
  row: KeptRow,
  { key, states, createdAfter, besides, wall }: HolderQuery,
): boolean {
  const { id, uniqueKey, state, createdAt, expiresAt, endedAt } = row
  const isPast = wall !== null && expiresAt !== null && expiresAt <= wall
  const isExpiring = isPast && endedAt === null && state !== 'active'
  const isAsked = states.some((one) => one === state) && createdAt > createdAfter
  return uniqueKey === key && id !== besides && isAsked && !isExpiring
}

export function readKeptKeys(schema: string, keys: readonly string[]): Statement {
  const text = `SELECT key, state, job_id AS id, created_at AS "createdAt", until
    FROM ${schema}.kept_keys WHERE key = ANY($1::text[])`
  return { text, values: [withoutNul(keys)] }
}

export function keptKeysOf(keys: readonly string[], rows: readonly Row[]) {
  const all = new Map<string, KeptKey[]>(keys.map((key) => [key, []]))
  for (const { key, ...kept } of rows) all.get(key)?.push(kept as KeptKey)
  return all
}
