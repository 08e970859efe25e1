/** The numbers of dead letters: by queue from kept counts, else from the newest of them. */
import { errorTypeOf } from '../../../job/search/filter.ts'
import type { DeadLetterStats } from '../../dead-letters.ts'
import type { Row } from '../connection.ts'
import type { Memory } from '../group/memory.ts'
import type { Reader } from '../reader.ts'

const MAX_LOOKED_AT = 100_000
/** Rows of one read: their errors are in memory at once, and other reads wait for it. */
const PAGE = 500

/** See `Reads.deadLetterStats`. */
export async function statsOfDead(
  schema: string,
  reader: Reader,
  memory: Memory,
  queues: readonly string[],
): Promise<DeadLetterStats> {
  const byQueue = new Map<string, number>()
  for (const name of queues.length > 0 ? queues : memory.queues.keys()) {
    const count = memory.counts.get(name)?.dead_letter ?? 0
    if (count > 0) byQueue.set(name, count)
  }
  const total = [...byQueue.values()].reduce((sum, count) => sum + count, 0)
  const dead = new Dead(schema, reader, [...byQueue.keys()], queues.length > 0)
  return { total, byQueue, ...(await dead.facts()), oldestAt: await dead.oldestAt() }
}

/** The dead letters of these queues, or of all, in the order of their ends. */
class Dead {
  readonly #schema: string
  readonly #reader: Reader
  readonly #queues: readonly string[]
  readonly #isOfQueues: boolean

  constructor(schema: string, reader: Reader, queues: readonly string[], isOfQueues: boolean) {
    this.#schema = schema
    this.#reader = reader
    this.#queues = queues
    this.#isOfQueues = isOfQueues
  }

  async facts(): Promise<
    Pick<DeadLetterStats, 'byType' | 'byErrorType' | 'newestAt' | 'searched'>
  > {
    const byType = new Map<string, number>()
    const byErrorType = new Map<string | null, number>()
    let searched = 0
    let newestAt: number | null = null
    for (let last: Row | undefined; searched < MAX_LOOKED_AT; ) {
      const page: readonly Row[] = await this.#newest(last)
      for (const { type, error } of page) {
        add(byType, String(type))
        add(byErrorType, errorTypeOf(error as string | null))
      }
      searched += page.length
      newestAt ??= (page[0]?.['at'] as number | undefined) ?? null
      last = page.at(-1)
      if (page.length < PAGE) return { byType, byErrorType, newestAt, searched: null }
    }
    return { byType, byErrorType, newestAt, searched }
  }

  /** The next page behind `last`, the newest first. */
  #newest(last: Row | undefined): Promise<readonly Row[]> {
    const after = last ? [last['at'], last['seq']] : [LATEST, LATEST]
    const of = (where: string) => `SELECT id, type, discarded_at, seq FROM ${this.#schema}.jobs
      WHERE is_dead_letter ${where} AND (discarded_at, seq) < ($1, $2)
      ORDER BY discarded_at DESC, seq DESC LIMIT ${PAGE}`
    const dead = this.#isOfQueues
      ? `SELECT d.* FROM unnest($3::text[]) AS q (name)
          CROSS JOIN LATERAL (${of('AND queue = q.name')}) d
          ORDER BY d.discarded_at DESC, d.seq DESC LIMIT ${PAGE}`
      : of('')
    const text = `SELECT d.type, b.error, d.discarded_at AS at, d.seq
      FROM (${dead}) d JOIN ${this.#schema}.job_bodies b USING (id)
      ORDER BY d.discarded_at DESC, d.seq DESC`
    return this.#reader.rows(text, [...after, ...(this.#isOfQueues ? [this.#queues] : [])])
  }

  async oldestAt(): Promise<number | null> {
    const of = (where: string) =>
      `SELECT min(discarded_at) AS at FROM ${this.#schema}.jobs WHERE is_dead_letter ${where}`
    const text = this.#isOfQueues
      ? `SELECT min(d.at)::bigint AS at FROM unnest($1::text[]) AS q (name)
          CROSS JOIN LATERAL (${of('AND queue = q.name')}) d`
      : of('')
    const [row] = await this.#reader.rows(text, this.#isOfQueues ? [this.#queues] : [])
    return (row?.['at'] as number | null | undefined) ?? null
  }
}

const LATEST = Number.MAX_SAFE_INTEGER

function add<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
