/** The unique keys of jobs that retention deletes. Only in groups of their own. */
import type { JobState } from '../../../job/job.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import { type KeptKey, keptUntil, MAX_KEPT_KEYS } from '../../writes/kept-keys.ts'
import type { Draft } from '../group/draft.ts'

/** Keeps the keys of rows that are about to go, where the policies of their jobs say so. */
export function keepKeys(
  draft: Draft,
  schema: string,
  rows: readonly KeptRow[],
  now: number,
): void {
  const keyed = rows.filter(({ uniqueKey }) => uniqueKey !== null)
  const kept = new Map<string, KeptKey & { key: string }>()
  for (const { envelope, ...job } of draft.jobs(keyed)) {
    const state = job.state as JobState
    const until = keptUntil(envelope, { state, createdAt: job.createdAt }, now)
    const key = draft.row(job.id)?.uniqueKey
    if (until === null || key == null) continue
    // Of two jobs of a key, the one whose period ends later.
    const place = JSON.stringify([key, state])
    const isLater = until >= (kept.get(place)?.until ?? 0)
    if (isLater) kept.set(place, { key, state, id: job.id, createdAt: job.createdAt, until })
  }
  if (kept.size > 0) store(draft, schema, [...kept.values()])
}

function store(draft: Draft, schema: string, kept: readonly (KeptKey & { key: string })[]): void {
  const text = `WITH done AS (
      INSERT INTO ${schema}.kept_keys AS old (key, state, job_id, created_at, until)
      SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
      ON CONFLICT (key, state) DO UPDATE SET job_id = excluded.job_id,
        created_at = excluded.created_at, until = excluded.until
      WHERE excluded.until >= old.until
      RETURNING xmax = 0 AS is_new)
    SELECT count(*) FILTER (WHERE is_new) AS n FROM done`
  const values = [
    kept.map(({ key }) => key),
    kept.map(({ state }) => state),
    kept.map(({ id }) => id),
    kept.map(({ createdAt }) => createdAt),
    kept.map(({ until }) => until),
  ]
  const added = Number(draft.ask({ text, values })[0]?.['n'])
  const { memory } = draft
  draft.changes.store(null, () => {
    memory.keptKeys += added
  })
}

/** Forgets keys whose period is over, and beyond the capacity those whose period ends first. */
export function pruneKeptKeys(
  draft: Draft,
  schema: string,
  now: number,
  limit: number,
  capacity = MAX_KEPT_KEYS,
): number {
  const { memory } = draft
  if (memory.keptKeys === 0) return 0
  const over = pruned(draft, schema, now, limit)
  const excess = Math.min(limit - over, memory.keptKeys - over - capacity)
  const gone = excess <= 0 ? over : over + pruned(draft, schema, Number.MAX_SAFE_INTEGER, excess)
  draft.changes.store(null, () => {
    memory.keptKeys -= gone
  })
  return gone
}

function pruned(draft: Draft, schema: string, until: number, limit: number): number {
  const table = `${schema}.kept_keys`
  const text = `WITH done AS (DELETE FROM ${table} WHERE (key, state) IN (
      SELECT key, state FROM ${table} WHERE until <= $1 ORDER BY until LIMIT $2) RETURNING 1)
    SELECT count(*) AS n FROM done`
  return Number(draft.ask({ text, values: [until, limit] })[0]?.['n'])
}
