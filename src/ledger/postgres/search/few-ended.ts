/** Jobs that have ended within a time, if one page can look at them all. */
import type { JobFilter } from '../../../job/search/filter.ts'
import { wantedStates } from '../../../job/search/needs.ts'
import { MAX_COMPARED_AT_ONCE } from '../../lists/limits.ts'
import {
  createdBetween,
  type Direction,
  endedBetween,
  orderOf,
  startOf,
} from '../../lists/order.ts'
import type { Asks, FoundKey } from './key-list.ts'

type Ended = FoundKey & { isIn: boolean }

/**
 * The keys of the jobs that have ended within the time of the filter, in the order of `created_at`; they may fail
 * its other conditions. Null: they are many. `queues`: all that may have such jobs.
 */
export async function fewEnded(
  { asks, schema }: { asks: Asks; schema: string },
  filter: JobFilter,
  queues: readonly string[],
  direction: Direction,
): Promise<FoundKey[] | null> {
  const { from, until } = endedBetween(filter)
  const values = [wantedStates(filter), queues, from, until, MAX_COMPARED_AT_ONCE + 1]
  const rows = (await asks.rows(textOf(schema), values)) as readonly unknown[] as Ended[]
  if (rows.length > MAX_COMPARED_AT_ONCE) return null
  const limits = createdBetween(filter)
  const isBefore = orderOf(direction)
  const start = startOf(direction, limits)
  const isIn = (key: Ended) =>
    key.isIn && key.at >= limits.from && key.at < limits.until && isBefore(start, key)
  return rows
    .filter(isIn)
    .map(({ seq, at, id }) => ({ seq, at, id }))
    .sort((a, b) => (isBefore(a, b) ? -1 : 1))
}

/** Rows whose message has not come back are in no order of their ends: all of them are read. */
function textOf(schema: string): string {
  const inTime = 'j.ended_at >= $3::bigint AND j.ended_at < $4::bigint'
  const select = (isIn: string, where: string) => `CROSS JOIN LATERAL (
    SELECT j.seq, j.created_at, j.id, ${isIn} AS is_in FROM ${schema}.jobs j
    WHERE ${where} AND j.ended_at IS NOT NULL LIMIT $5::bigint) k`
  const lists = 'unnest($1::text[]) AS s (state) CROSS JOIN (VALUES (false), (true)) AS d (is_dead)'
  const ofList = `NOT j.message_out AND j.state = s.state AND j.is_dead_letter = d.is_dead AND ${inTime}`
  const backs = ['j.step IS NULL', 'j.step IS NOT NULL'].map(
    (step) => `SELECT k.* FROM ${lists} ${select('true', `${ofList} AND ${step}`)}`,
  )
  const stray = select(inTime, 'j.queue = q.name AND j.message_out')
  const all = [...backs, `SELECT k.* FROM unnest($2::text[]) AS q (name) ${stray}`]
  return `SELECT seq, created_at AS at, id, is_in AS "isIn" FROM (${all.join(' UNION ALL ')}) ended
    LIMIT $5::bigint`
}
