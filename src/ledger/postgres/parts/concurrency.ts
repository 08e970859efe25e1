/** Concurrency keys: the contract's part, and how many jobs of a key run. */
import type { Carry } from '../../../job/job.ts'
import {
  type ConcurrencyLedger,
  type KeyStanding,
  MAX_LEASES_ASKED,
  MAX_WAITING_COUNTED,
} from '../../concurrency.ts'
import type { Reads } from '../../reads.ts'
import { freed } from '../../writes/lines.ts'
import type { Row } from '../connection.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import { DraftLines, heldKeys, heldQueues, lineWants } from '../group/lines.ts'
import type { Memory } from '../group/memory.ts'
import type { Reader } from '../reader.ts'

/** Queues of one key that one load of a review looks at. */
const PAGE = 1_000

interface ConcurrencyParts {
  groups: Groups
  schema: string
  memory: Memory
  reader: Reader
}

export function concurrencyLedger(parts: ConcurrencyParts): ConcurrencyLedger {
  const { groups, schema, memory, reader } = parts
  return {
    onNews(listener) {
      memory.tellKeys = listener
    },
    async review(after, limit) {
      const { text, values } = heldKeys(schema, after, limit)
      const keys = (await reader.rows(text, values)).map(({ key }) => String(key))
      if (keys.length === 0) return null
      const run = (draft: Draft) => {
        for (const key of keys) reviewKey(draft, key)
      }
      await groups.write({ wants: {}, run, weight: keys.length, isAlone: true })
      return keys.length < limit ? null : (keys.at(-1) ?? null)
    },
  }
}

function reviewKey(draft: Draft, key: string): void {
  const lines = new DraftLines(draft)
  for (let after = ''; ; ) {
    const found = draft.ask(heldQueues(draft.schema, key, after, PAGE))
    const queues = found.map(({ queue }) => String(queue))
    draft.require(
      lineWants(
        draft.schema,
        queues.map((queue) => ({ key, queue })),
      ),
    )
    for (const queue of queues) freed(lines, { key, queue }, false)
    const last = queues.at(-1)
    if (last === undefined || queues.length < PAGE) return
    after = last
  }
}

export function concurrencyReads(schema: string, reader: Reader): Reads['concurrency'] {
  return {
    active: async (key) => {
      const text = `SELECT active FROM ${schema}.concurrency WHERE key = $1`
      return Number((await reader.rows(text, [key]))[0]?.['active'] ?? 0)
    },
    keys: async (after, limit) => {
      const rows = await reader.rows(nextKeys(schema), [after, limit])
      return rows.map(({ key }) => String(key))
    },
    standings: async (keys) => {
      const values = [keys, MAX_WAITING_COUNTED, MAX_LEASES_ASKED]
      const rows = await reader.rows(standingsOf(schema), values)
      return new Map(rows.map(({ key, ...row }) => [String(key), standingOf(row)]))
    },
  }
}

/** Conditions on the first column of the index, for jobs that wait; those that are held back come first. */
const HOLDERS = ["j.holder = 'ledger'", 'j.holder IS NULL', "j.holder = 'native'"]
const WAITING = "j.state = 'available' AND j.concurrency_key IS NOT NULL"

/** One step in each list for each key. */
function nextKeys(schema: string): string {
  const next = (than: string) => {
    const lists = HOLDERS.map(
      (holder) => `(SELECT j.concurrency_key AS key FROM ${schema}.jobs j
        WHERE ${WAITING} AND ${holder} AND j.concurrency_key > ${than}
        ORDER BY j.concurrency_key LIMIT 1)`,
    )
    return `SELECT min(n.key) AS key FROM (
      (SELECT c.key FROM ${schema}.concurrency c WHERE c.key > ${than} ORDER BY c.key LIMIT 1)
      UNION ALL ${lists.join(' UNION ALL ')}) n`
  }
  return `WITH RECURSIVE k AS ((${next('$1')})
      UNION ALL SELECT (${next('k.key')}) FROM k WHERE k.key IS NOT NULL)
    SELECT key FROM k WHERE key IS NOT NULL LIMIT $2`
}

function standingsOf(schema: string): string {
  const firsts = HOLDERS.map(
    (holder, place) => `(SELECT j.id, ${place} AS place FROM ${schema}.jobs j
      WHERE ${WAITING} AND ${holder} AND j.concurrency_key = w.key
      ORDER BY j.queue, j.priority DESC, j.enqueued_at, j.seq LIMIT 1)`,
  )
  return `WITH leased AS MATERIALIZED (
      SELECT j.id, j.concurrency_key AS key FROM ${schema}.jobs j
      WHERE j.lease_expires_at IS NOT NULL AND least(j.lease_expires_at, j.timeout_at) > 0
      ORDER BY least(j.lease_expires_at, j.timeout_at) LIMIT $3)
    SELECT w.key, coalesce(c.active, 0) AS active, b.carry, (
      SELECT count(*) FROM (SELECT 1 FROM ${schema}.jobs j
        WHERE ${WAITING} AND ${HOLDERS[0]} AND j.concurrency_key = w.key LIMIT $2) h) AS waiting
    FROM unnest($1::text[]) AS w (key)
    LEFT JOIN ${schema}.concurrency c ON c.key = w.key
    LEFT JOIN LATERAL (SELECT f.id FROM (${firsts.join(' UNION ALL ')}) f
      ORDER BY f.place LIMIT 1) first ON true
    LEFT JOIN LATERAL (SELECT l.id FROM leased l WHERE l.key = w.key LIMIT 1) running ON true
    LEFT JOIN ${schema}.job_bodies b ON b.id = coalesce(first.id, running.id)
    WHERE c.active > 0 OR first.id IS NOT NULL`
}

function standingOf({ active, carry, waiting }: Row): KeyStanding {
  const policy = carry == null ? null : (JSON.parse(String(carry)) as Carry).concurrency
  return { limit: policy?.limit ?? null, active: Number(active), waiting: Number(waiting) }
}
