/** Compares the rows of a search with its filter, many in one statement. */
import type { JobFilter } from '../../../job/search/filter.ts'
import {
  type CheckedRow,
  isMet,
  type Needles,
  needlesOf,
  textsOf,
  type WithTexts,
} from '../../lists/comparing.ts'
import { MAX_ENVELOPES } from '../../lists/limits.ts'
import { sortValue } from '../../lists/order.ts'
import type { JobOrder } from '../../search.ts'
import type { FoundKey, Keys } from './key-list.ts'
import type { Searched } from './sources.ts'

/** Rows of one statement. */
const MOST_AT_ONCE = 2_048
const FEWEST_AT_ONCE = 64
/** Bytes of envelopes of one statement: they are in memory at once, and parsed in one turn. */
const MAX_BYTES_AT_ONCE = 1024 * 1024

export class Comparison {
  /** How many rows it has looked at. */
  rows = 0
  readonly #searched: Searched
  readonly #filter: JobFilter
  readonly #needles: Needles
  readonly #texts: WithTexts
  #bytes = 0
  #partSize = FEWEST_AT_ONCE

  constructor(searched: Searched, filter: JobFilter) {
    this.#searched = searched
    this.#filter = filter
    this.#needles = needlesOf(filter)
    this.#texts = textsOf(filter)
  }

  /** It has read as much as one search may. */
  get isExhausted(): boolean {
    return this.#bytes >= MAX_ENVELOPES
  }

  /** How many rows it should get next: more each time, and not fewer than the ranges that have to be sought in. */
  nextOf({ seeks }: Keys): number {
    return Math.max(this.#partSize, Math.min(seeks, MOST_AT_ONCE))
  }

  /** The ids of the keys whose rows match the whole filter. */
  async matches(keys: readonly FoundKey[]): Promise<Set<string>> {
    this.rows += keys.length
    this.#partSize = Math.min(MOST_AT_ONCE, 2 * Math.max(this.#partSize, keys.length))
    const matched = new Set<string>()
    for (const ids of await this.#parts(keys.map(({ id }) => id))) {
      const rows = await this.#mayMatch(ids)
      for (const row of rows) if (isMet(this.#filter, row)) matched.add(row.id)
    }
    return matched
  }

  /** Together, unless their envelopes have to be read, and are many bytes. */
  async #parts(ids: readonly string[]): Promise<(readonly string[])[]> {
    if (!this.#texts.envelope) return [ids]
    const sizes = await sizesOf(this.#searched, ids, false)
    this.#bytes += sizes.reduce((sum, { bytes }) => sum + bytes, 0)
    return inParts(sizes)
  }

  async #mayMatch(ids: readonly string[]): Promise<CheckedRow[]> {
    const needles = Object.values(this.#needles)
    return await checkedRows(this.#searched, ids, needles, this.#texts)
  }
}

interface Size {
  id: string
  bytes: number
}

function inParts(sizes: readonly Size[]): string[][] {
  const parts: string[][] = []
  let bytes = MAX_BYTES_AT_ONCE
  for (const one of sizes) {
    if (bytes >= MAX_BYTES_AT_ONCE) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)?.push(one.id)
    bytes += one.bytes
  }
  return parts
}

/** Bytes of the envelopes; `isWhole`: with errors and results. Without rows that are gone. */
export async function sizesOf(
  { asks, schema }: Searched,
  ids: readonly string[],
  isWhole: boolean,
): Promise<Size[]> {
  const others = `+ coalesce(octet_length(b.errors), 0) + coalesce(octet_length(b.result), 0)`
  const bytes = `octet_length(b.envelope) ${isWhole ? others : ''}`
  const text = byId(`SELECT b.id, ${bytes} AS bytes FROM ${schema}.job_bodies b WHERE b.id = w.id`)
  return (await asks.rows(text, [ids])) as readonly unknown[] as Size[]
}

/** Rows of `$1`, a list of ids, in its order, one seek for each. `select`: of the id `w.id`. */
export function byId(select: string): string {
  // The LIMIT keeps the planner from reading the whole table for a few thousand rows.
  return `SELECT f.* FROM unnest($1::text[]) WITH ORDINALITY AS w (id, n)
    CROSS JOIN LATERAL (${select} LIMIT 1) f ORDER BY w.n`
}

const SHORT = `j.seq, j.id, j.state, j.queue, j.type, j.worker_id AS "workerId",
  j.created_at AS "createdAt", j.enqueued_at AS "enqueuedAt", j.ended_at AS "endedAt", j.priority,
  j.due_at AS "dueAt", j.is_dead_letter AS "isDeadLetter", j.holder, j.started_at AS "startedAt"`
const SHORT_NEEDLES = `($2::text IS NULL OR j.worker_id = $2)
  AND j.enqueued_at >= $3::bigint AND j.enqueued_at < $4::bigint
  AND ($5::bigint IS NULL OR j.ended_at >= $5) AND ($6::bigint IS NULL OR j.ended_at < $6)
  AND ($7::text[] IS NULL OR j.state = ANY ($7)) AND ($8::text[] IS NULL OR j.queue = ANY ($8))
  AND ($9::bigint IS NULL OR j.priority = $9)`
const SHORT_COUNT = 8

/** The rows of the keys by the value of an order. `last`: that of rows without one. */
export async function sortKeys(
  { asks, schema }: Searched,
  keys: readonly FoundKey[],
  order: JobOrder,
  last: number,
): Promise<FoundKey[]> {
  const text = byId(`SELECT j.seq, j.id, coalesce(${sortValue('$2::text')}, $3::bigint) AS at
    FROM ${schema}.jobs j WHERE j.id = w.id`)
  const rows = await asks.rows(text, [keys.map(({ id }) => id), order, last])
  return rows as readonly unknown[] as FoundKey[]
}

/** `needles`: the values of `Needles`, in their order. */
async function checkedRows(
  { asks, schema }: Searched,
  ids: readonly string[],
  needles: readonly unknown[],
  texts: WithTexts,
): Promise<CheckedRow[]> {
  const asked = Object.entries(texts).map(([name, is]) => `${is ? `b.${name}` : 'NULL'} AS ${name}`)
  const isShort = !(texts.carry || texts.error || texts.envelope)
  const bodies = `JOIN ${schema}.job_bodies b ON b.id = j.id`
  const select = `SELECT ${SHORT}, ${asked.join(', ')}
    FROM ${schema}.jobs j ${isShort ? '' : bodies} WHERE j.id = w.id AND ${SHORT_NEEDLES}`
  const long = ['carry', 'error', 'envelope'].map(
    (name, i) => ` AND ${mayContain(name, SHORT_COUNT + 2 + i)}`,
  )
  const text = byId(isShort ? select : select + long.join(''))
  const values = isShort ? needles.slice(0, SHORT_COUNT) : needles
  return (await asks.rows(text, [ids, ...values])) as readonly unknown[] as CheckedRow[]
}

function mayContain(column: string, n: number): string {
  const has = (what: string) => `strpos(b.${column}, ${what}) > 0`
  return `($${n}::text IS NULL OR ${has(`$${n}`)} OR ${has(`'\\'`)})`
}
