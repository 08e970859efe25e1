/** Since when the oldest jobs of each queue wait. */
import { MAX_OVERDUE, MAX_TYPES } from '../../lists/limits.ts'
import type { OldestJobs } from '../../search.ts'
import { IS_LATE, type Searched, typesOf } from './sources.ts'

/** Finds the oldest jobs of the queues, by the first entries of index ranges. */
export async function oldestJobs(
  searched: Searched,
  queues: readonly string[],
  now: number,
  wall: number,
): Promise<ReadonlyMap<string, OldestJobs>> {
  const [available, retryable, scheduled] = await Promise.all([
    oldestAvailable(searched, queues),
    mostOverdue(searched, 'retryable', now),
    mostOverdue(searched, 'scheduled', wall),
  ])
  const ofQueue = (queue: string): OldestJobs => ({
    available: available.get(queue) ?? null,
    retryable: retryable.get(queue) ?? null,
    scheduled: scheduled.get(queue) ?? null,
  })
  return new Map(queues.map((queue) => [queue, ofQueue(queue)]))
}

/** Of each type the first that came when it was created, and the first of those that came long after. */
async function oldestAvailable(searched: Searched, queues: readonly string[]) {
  const { asks, schema, memory } = searched
  const used = queues.filter((queue) => (memory.counts.get(queue)?.available ?? 0) > 0)
  if (used.length === 0) return new Map<string, number>()
  const types = typesOf(schema, 'q.name', `'available'`, `''`)
  const waiting = `SELECT j.enqueued_at AS at FROM ${schema}.jobs j
    WHERE j.queue = q.name AND j.state = 'available'`
  const text = `SELECT q.name AS queue, least(
      (SELECT min(f.at) FROM (${types} LIMIT ${MAX_TYPES}) t CROSS JOIN LATERAL (
        ${waiting} AND j.type = t.type AND ${IS_LATE} = false
        ORDER BY j.created_at, j.seq LIMIT 1) f),
      (${waiting} AND ${IS_LATE} ORDER BY j.enqueued_at LIMIT 1)) AS at
    FROM unnest($1::text[]) AS q (name)`
  return toMap(await asks.rows(text, [used]))
}

/** The due time of the most overdue job of each queue. */
async function mostOverdue(
  { asks, schema }: Searched,
  state: 'retryable' | 'scheduled',
  until: number,
): Promise<Map<string, number>> {
  const text = `SELECT o.queue, min(o.due_at) AS at FROM (
      SELECT j.queue, j.due_at FROM ${schema}.jobs j
      WHERE j.state = $1 AND j.due_at IS NOT NULL AND j.ended_at IS NULL AND j.due_at <= $2
      ORDER BY j.due_at LIMIT ${MAX_OVERDUE}) o GROUP BY o.queue`
  return toMap(await asks.rows(text, [state, until]))
}

function toMap(rows: readonly Record<string, unknown>[]): Map<string, number> {
  const found = rows.filter(({ at }) => at !== null)
  return new Map(found.map(({ queue, at }) => [String(queue), Number(at)]))
}
