/** Which ranges of which index hold the jobs of a filter, and what they leave to be compared. */
import type { JobState } from '../../../job/job.ts'
import { isOpen, type JobFilter } from '../../../job/search/filter.ts'
import {
  comparesCode,
  isOfDueJobs,
  needsMoreThanCode,
  needsMoreThanDeath,
  needsRow,
  statesOf,
  wantedStates,
  wantedTypes,
} from '../../../job/search/needs.ts'
import { MAX_FEW_DUE, MAX_RANGES } from '../../lists/limits.ts'
import { createdBetween, type Direction, endedBetween, NO_LIMITS } from '../../lists/order.ts'
import type { List } from '../../lists/page-keys.ts'
import { errorKey } from '../group/error-codes.ts'
import type { Memory } from '../group/memory.ts'
import { isNodeOf } from '../group/workflows.ts'
import { fewEnded } from './few-ended.ts'
import { type Asks, inMemory, KeyList, type Keys, type Ranges } from './key-list.ts'

/** What a search reads. */
export interface Searched {
  asks: Asks
  schema: string
  memory: Memory
}

/** A list in the order of a column. */
export interface Source extends List {
  keys: Keys
  /** True: each of its rows must be compared with the whole filter. */
  isRough: boolean
}

const ONE_RANGE = '(VALUES (1)) AS r (n)'
/** The fourth column of the index `jobs_search`, word for word. */
export const IS_LATE = '(abs(j.enqueued_at - j.created_at) > 1000)'

/** Opens the list of the rows that may match, in the order of `created_at`. */
export async function byCreation(
  searched: Searched,
  filter: JobFilter,
  direction: Direction,
): Promise<Source> {
  const { asks, schema } = searched
  const listOf = (ranges: Ranges) =>
    new KeyList(asks, schema, ranges, direction, createdBetween(filter))
  const few = fewOf(schema, filter)
  if (few !== null) return { keys: listOf(few), isRough: isRoughOf(filter), isCut: false }
  if (!isOpen(filter.ended)) {
    const queues = [...namesOf(searched.memory, filter.queues)]
    const ended = await fewEnded(searched, filter, queues, direction)
    if (ended !== null) return { keys: inMemory(ended), isRough: true, isCut: false }
  }
  const { ranges, isCut } = await rangesOf(searched, filter)
  return { keys: listOf(ranges), isRough: needsRow(filter), isCut }
}

/** The code of the error alone is all that its index tells. */
function isRoughOf(filter: JobFilter): boolean {
  return comparesCode(filter) || filter.errorCode === null || needsMoreThanCode(filter)
}

/** The ranges of a condition that has an index of its own; null: the filter has none. */
function fewOf(schema: string, filter: JobFilter): Ranges | null {
  const { ids, workflowId, cron, errorCode } = filter
  const column = 'created_at'
  if (workflowId !== null) return ofCron(schema, stepsOf(schema, workflowId, ids), cron)
  if (ids.length > 0) {
    const of = 'unnest($1::text[]) WITH ORDINALITY AS r (id, n)'
    const own = [...new Set(ids)]
    const ranges: Ranges = { column, of, values: [own], where: 'j.id = r.id', size: own.length }
    return ofCron(schema, ranges, cron)
  }
  if (cron !== null) {
    const of = `(SELECT 1 AS n, e.seq FROM ${schema}.cron_jobs e WHERE e.name = $1) AS r`
    return { column, of, values: [cron], where: 'j.cron_entry = r.seq', size: 1 }
  }
  if (errorCode === null) return null
  const where = `j.error_code = $1 AND j.error_code <> ''`
  return { column, of: ONE_RANGE, values: [errorKey(errorCode)], where, size: 1 }
}

/** Those of the ranges that a cron entry made; null: all. */
function ofCron(schema: string, ranges: Ranges, cron: string | null): Ranges {
  if (cron === null) return ranges
  const values = [...ranges.values, cron]
  const entry = `(SELECT e.seq FROM ${schema}.cron_jobs e WHERE e.name = $${values.length})`
  return { ...ranges, values, where: `${ranges.where} AND j.cron_entry = ${entry}` }
}

/** `ids`: only these; an empty list: all. */
function stepsOf(schema: string, workflowId: string, ids: readonly string[]): Ranges {
  const of = `(SELECT row_number() OVER () AS n, s.job_id AS id FROM ${schema}.workflow_steps s
    WHERE ${isNodeOf('s.key', '$1::text')} AND s.job_id IS NOT NULL
      AND ($2::text[] = '{}' OR s.job_id = ANY($2))) AS r`
  const column = 'created_at'
  return { column, of, values: [workflowId, ids], where: 'j.id = r.id', size: 1 }
}

/** The list of scheduled and retryable jobs in the order of their due times; null if others may match too. */
export function byDueTime(
  { asks, schema, memory }: Searched,
  filter: JobFilter,
  direction: Direction,
): Source | null {
  const { states, queues } = filter
  const isFew = queues.length > 0 && countOf(memory, states, queues) <= MAX_FEW_DUE
  if (isFew || !isOfDueJobs(filter)) return null
  const own = [...new Set(states)]
  const ranges: Ranges = {
    column: 'due_at',
    of: 'unnest($1::text[]) WITH ORDINALITY AS r (state, n)',
    values: [own],
    where: 'j.state = r.state AND j.due_at IS NOT NULL AND j.ended_at IS NULL',
    size: own.length,
  }
  const keys = new KeyList(asks, schema, ranges, direction, NO_LIMITS)
  return { keys, isRough: true, isCut: false }
}

/** The list of dead letters in the order of their ends. Conditions with an index of their own are not for it. */
export function byDeath(
  { asks, schema }: Searched,
  filter: JobFilter,
  direction: Direction,
): Source {
  const queues = [...new Set(filter.queues)]
  const of = 'unnest($1::text[]) WITH ORDINALITY AS r (queue, n)'
  const column = 'discarded_at'
  const ranges: Ranges =
    queues.length === 0
      ? { column, of: ONE_RANGE, values: [], where: 'j.is_dead_letter', size: 1 }
      : {
          ...{ column, of, values: [queues] },
          where: 'j.is_dead_letter AND j.queue = r.queue',
          size: queues.length,
        }
  const keys = new KeyList(asks, schema, ranges, direction, endedBetween(filter))
  const isRough = needsMoreThanDeath(filter)
  return { keys, isRough, isCut: false }
}

/** How many dead letters these queues have; an empty list: all. */
export function deadIn(memory: Memory, queues: readonly string[]): number {
  const names = queues.length === 0 ? memory.counts.keys() : new Set(queues)
  return [...names].reduce((sum, queue) => sum + (memory.counts.get(queue)?.dead_letter ?? 0), 0)
}

/** How many jobs of these states and queues there are; an empty list: all. */
export function countOf(
  memory: Memory,
  states: readonly JobState[],
  queues: readonly string[],
): number {
  let count = 0
  for (const queue of namesOf(memory, queues)) {
    const counts = memory.counts.get(queue)
    if (counts !== undefined) for (const state of statesOf(states)) count += counts[state]
  }
  return count
}

/** An empty list: all that have jobs. The ended ones of a queue that was forgotten stay for their retention. */
function namesOf(memory: Memory, queues: readonly string[]): Set<string> {
  return new Set(queues.length > 0 ? queues : memory.counts.keys())
}

/**
 * Every range of `jobs_search` that has jobs of the filter. Queues and states without jobs are known by their
 * counts; types are found one after the other. `isCut`: there are more ranges than it names.
 */
export async function rangesOf(
  searched: Searched,
  filter: JobFilter,
): Promise<{ ranges: Ranges; isCut: boolean }> {
  const pairs = pairsOf(searched.memory, filter)
  const { exact, prefixes } = wantedTypes(filter.types)
  const named = pairs.flatMap((pair) => exact.map((type) => ({ ...pair, type })))
  const found = prefixes.length > 0 ? await typesIn(searched, pairs, prefixes) : []
  const all = [...named, ...found]
  const kept = all
    .slice(0, MAX_RANGES / 2)
    .flatMap((one) => [false, true].map((late) => ({ ...one, late })))
  const ranges: Ranges = {
    column: 'created_at',
    of: `unnest($1::text[], $2::text[], $3::text[], $4::boolean[]) WITH ORDINALITY
      AS r (queue, state, type, is_late, n)`,
    values: [
      kept.map(({ queue }) => queue),
      kept.map(({ state }) => state),
      kept.map(({ type }) => type),
      kept.map(({ late }) => late),
    ],
    where: `j.queue = r.queue AND j.state = r.state AND j.type = r.type AND ${IS_LATE} = r.is_late`,
    size: kept.length,
  }
  return { ranges, isCut: all.length > MAX_RANGES / 2 }
}

interface Pair {
  queue: string
  state: string
}

function pairsOf(memory: Memory, filter: JobFilter): Pair[] {
  const states = wantedStates(filter)
  return [...namesOf(memory, filter.queues)].flatMap((queue) => {
    const counts = memory.counts.get(queue)
    if (counts === undefined || (filter.isHeld && counts.held === 0)) return []
    return states.filter((state) => counts[state] > 0).map((state) => ({ queue, state }))
  })
}

/** The types that begin so, and of which a queue has jobs in the state: by seeks in the index. */
async function typesIn(
  { asks, schema }: Searched,
  pairs: readonly Pair[],
  prefixes: readonly string[],
): Promise<(Pair & { type: string })[]> {
  const text = `SELECT p.queue, p.state, t.type
    FROM unnest($1::text[], $2::text[]) AS p (queue, state) CROSS JOIN unnest($3::text[]) AS x (prefix)
    CROSS JOIN LATERAL (${typesOf(schema, 'p.queue', 'p.state', 'x.prefix')}) t LIMIT $4`
  const values = [pairs.map(({ queue }) => queue), pairs.map(({ state }) => state), prefixes]
  const rows = await asks.rows(text, [...values, MAX_RANGES / 2 + 1])
  return rows as readonly unknown[] as (Pair & { type: string })[]
}

/** A SELECT of the types that begin with `prefix`. All three: SQL. */
export function typesOf(schema: string, queue: string, state: string, prefix: string): string {
  const next = (than: string) => `SELECT j.type FROM ${schema}.jobs j
    WHERE j.queue = ${queue} AND j.state = ${state} AND j.type ${than} ORDER BY j.type LIMIT 1`
  return `WITH RECURSIVE t AS ((${next(`>= ${prefix}`)})
      UNION ALL SELECT (${next('> t.type')}) FROM t WHERE starts_with(t.type, ${prefix}))
    SELECT t.type FROM t WHERE starts_with(t.type, ${prefix})`
}
