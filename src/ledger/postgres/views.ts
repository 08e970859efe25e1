/** The two read sides of the contract: what is kept in memory, and reads of the rows. */
import { type JobRow, type JobStanding, type OwedMessage, standingOf } from '../../job/job.ts'
import type { KeptRow } from '../../job/transitions/row.ts'
import type { OwedKind } from '../bulk.ts'
import type { Known, StateCounts } from '../known.ts'
import type { WorkerLeases } from '../leases.ts'
import { OWED_LOOKED_AT } from '../lists/limits.ts'
import type { CancelledMessage } from '../native.ts'
import type { Reads } from '../reads.ts'
import { jobsOf, ROW, TEXTS } from './group/columns.ts'
import { type Counts, type Memory, noCounts } from './group/memory.ts'
import { withoutNul } from './nul.ts'
import type { Parts } from './parts/all.ts'
import { bulkReads } from './parts/bulk.ts'
import { concurrencyReads } from './parts/concurrency.ts'
import { cronReads } from './parts/cron.ts'
import { noteReads } from './parts/notes.ts'
import { knownWorkflows, workflowReads } from './parts/workflows.ts'
import type { Reader } from './reader.ts'
import { PostgresSearch } from './search/search.ts'
import { expiredKeys } from './writes/due.ts'

/** What only this process writes, is of this moment. */
export function knownOf(
  { pauses, idle, schemas, maintenance, queueSettings }: Parts,
  memory: Memory,
  fault: () => string | null,
  { replication, warnings }: Pick<Known, 'replication' | 'warnings'>,
): Known {
  const countsOf = (queue: string) => memory.counts.get(queue) ?? noCounts()
  return {
    staleMs: 0,
    ...{ pauses, idle, schemas, maintenance, queueSettings, traffic: memory.traffic },
    lost: { has: (queue) => memory.lost.has(queue), all: () => [...memory.lost] },
    unwritten: { has: (queue) => memory.unwritten.has(queue) },
    workflows: knownWorkflows(memory),
    queues: () => [...memory.queues.values()],
    hasQueue: (name) => memory.queues.has(name),
    retryQueues: () => [...memory.retryQueues.values()],
    counts: (queue) => statesOf(countsOf(queue)),
    claimable: (queue) => claimableOf(countsOf(queue)),
    held: (queue) => countsOf(queue).held,
    deadLetterCount: (queue) => deadLettersOf(memory, queue),
    staleCopies: () => new Map(memory.stale),
    fault,
    warnings,
    replication,
  }
}

function statesOf({ dead_letter: _, with_native: __, held: ___, ...states }: Counts): StateCounts {
  return states
}

function claimableOf({ available, with_native, held }: Counts): number {
  return available - with_native - held
}

function deadLettersOf(memory: Memory, queue: string | undefined): number {
  if (queue !== undefined) return memory.counts.get(queue)?.dead_letter ?? 0
  return [...memory.counts.values()].reduce((sum, { dead_letter }) => sum + dead_letter, 0)
}

const END = 'least(j.lease_expires_at, j.timeout_at)'

type Asked = Pick<
  Reads,
  | 'find'
  | 'standing'
  | 'standings'
  | 'activeByWorker'
  | 'leasedTo'
  | 'size'
  | 'outboxPage'
  | 'owed'
  | 'owedMessages'
  | 'queueIdentity'
  | 'expiring'
  | 'isTombstoned'
  | 'tombstones'
>

/** `searcher`: reads that may take long, and must not keep others waiting. */
interface ReadsDeps {
  schema: string
  reader: Reader
  searcher: Reader
  memory: Memory
}

export function readsOf(
  { schema, reader, searcher, memory }: ReadsDeps,
  { schemas, idempotency, lostMessages, epochs, traffic, audit }: Parts,
): Reads {
  const search = new PostgresSearch({ schema, asks: searcher, memory })
  const asked = new Rows(schema, reader, memory)
  const own: Asked = {
    find: (id) => asked.find(id),
    standing: (id) => asked.standing(id),
    standings: (ids) => asked.standings(ids),
    activeByWorker: (limit) => asked.activeByWorker(limit),
    leasedTo: (workerId, from, limit) => asked.leasedTo(workerId, from, limit),
    size: () => asked.size(),
    outboxPage: (after, limit) => asked.outboxPage(after, limit),
    owed: (outboxes) => asked.owed(outboxes),
    owedMessages: (atMost, kind) => asked.owedMessages(atMost, kind),
    queueIdentity: (name) => asked.queueIdentity(name),
    expiring: (wall, limit) => asked.expiring(wall, limit),
    isTombstoned: (id, queue = null) => asked.isTombstoned(id, queue),
    tombstones: (queues, limit) => asked.tombstones(queues, limit),
  }
  return {
    ...own,
    cron: cronReads(schema, reader),
    ...{ schemas, idempotency, lostMessages, epochs, traffic, audit },
    workflows: workflowReads(schema, reader, memory),
    ...noteReads(schema, reader, memory),
    bulk: bulkReads(schema, reader),
    search,
    concurrency: concurrencyReads(schema, reader),
    deadLetterStats: (queues) => search.deadLetterStats(queues),
  }
}

class Rows implements Asked {
  readonly #jobs: string
  readonly #bodies: string
  readonly #queues: string
  readonly #tombstones: string
  readonly #reader: Reader
  readonly #memory: Memory

  constructor(schema: string, reader: Reader, memory: Memory) {
    this.#jobs = `${schema}.jobs`
    this.#bodies = `${schema}.job_bodies`
    this.#queues = `${schema}.queues`
    this.#tombstones = `${schema}.tombstones`
    this.#reader = reader
    this.#memory = memory
  }

  async find(id: string): Promise<JobRow | null> {
    return (await this.#jobRows('j.id = $1', [id]))[0] ?? null
  }

  async standing(id: string): Promise<JobStanding | null> {
    return (await this.standings([id])).get(id) ?? null
  }

  async standings(ids: readonly string[]): Promise<ReadonlyMap<string, JobStanding>> {
    const text = `SELECT ${ROW} FROM ${this.#jobs} j WHERE j.id = ANY($1::text[])`
    const rows = await this.#reader.rows(text, [withoutNul(ids)])
    return new Map(rows.map((row) => [String(row['id']), standingOf(row as unknown as KeptRow)]))
  }

  async activeByWorker(limit: number): Promise<ReadonlyMap<string, WorkerLeases>> {
    const text = `SELECT worker_id AS worker, count(*) AS jobs, array_agg(DISTINCT queue) AS queues,
        min(begun) AS since, max(begun) AS until FROM (
        SELECT worker_id, queue, coalesce(started_at, enqueued_at) AS begun FROM ${this.#jobs} j WHERE lease_expires_at IS NOT NULL AND ${END} > 0
        ORDER BY ${END} LIMIT $1) leased WHERE worker_id IS NOT NULL GROUP BY worker_id`
    const rows = await this.#reader.rows(text, [limit])
    return new Map(
      rows.map(({ worker, jobs, queues, since, until }) => [
        String(worker),
        {
          ...{ jobs: Number(jobs), queues: queues as string[] },
          ...{ since: Number(since), until: Number(until) },
        },
      ]),
    )
  }

  async leasedTo(
    workerId: string,
    from: number,
    limit: number,
  ): Promise<{ ids: string[]; next: number | null }> {
    const page = await this.#leases(workerId, from, null, limit)
    const last = page.length < limit ? null : Number(page.at(-1)?.['ends'])
    if (last !== from) return { ids: ownIds(page), next: last }
    // More leases than fit into a page end at this instant: they are all of one page.
    return { ids: ownIds(await this.#leases(workerId, from, from + 1, null)), next: from + 1 }
  }

  #leases(workerId: string, from: number, to: number | null, limit: number | null) {
    const text = `SELECT j.id, j.worker_id IS NOT DISTINCT FROM $1 AS own, ${END} AS ends
      FROM ${this.#jobs} j WHERE j.lease_expires_at IS NOT NULL AND ${END} >= $2
        AND ${END} < coalesce($3, 9223372036854775807) ORDER BY ${END} LIMIT $4`
    return this.#reader.rows(text, [workerId, from, to, limit])
  }

  async size(): ReturnType<Reads['size']> {
    const text = `SELECT sum(pg_total_relation_size(c.oid))::bigint AS bytes
      FROM pg_class c JOIN pg_class t ON t.oid = $1::regclass
      WHERE c.relnamespace = t.relnamespace AND c.relkind = 'r'`
    // What rows that went have left is known only to a scan (pgstattuple).
    return {
      bytes: Number((await this.#reader.rows(text, [this.#jobs]))[0]?.['bytes']),
      freeBytes: 0,
    }
  }

  async outboxPage(after: number, limit: number): Promise<OwedMessage[]> {
    const text = `SELECT j.id, j.queue, j.state, j.outbox, octet_length(b.envelope) AS bytes
      FROM ${this.#jobs} j JOIN ${this.#bodies} b USING (id)
      WHERE j.outbox > $1 ORDER BY j.outbox LIMIT $2`
    for (let last = after; ; ) {
      const rows = await this.#reader.rows(text, [last, limit])
      const page = rows as readonly unknown[] as OwedMessage[]
      const owed = page.filter(({ outbox }) => !this.#memory.confirming.has(outbox))
      const end = page.at(-1)
      if (owed.length > 0 || !end) return owed
      // Every row of this page is confirmed, and waits for its commit: read on.
      last = end.outbox
    }
  }

  async owed(outboxes: readonly number[]): Promise<JobRow[]> {
    const isOwed = (outbox: number) => !this.#memory.confirming.has(outbox)
    const rows = await this.#jobRows('j.outbox = ANY($1::bigint[]) ORDER BY j.outbox', [
      outboxes.filter(isOwed),
    ])
    // Its confirm may have come during the read.
    return rows.filter(({ outbox }) => outbox !== null && isOwed(outbox))
  }

  async owedMessages(atMost: number, kind?: OwedKind): Promise<number> {
    const owed = `(SELECT queue, state FROM ${this.#jobs} WHERE outbox IS NOT NULL LIMIT $1) owed`
    if (kind === undefined) {
      const [row] = await this.#reader.rows(`SELECT count(*) AS n FROM ${owed}`, [atMost])
      return Number(row?.['n'])
    }
    const look = OWED_LOOKED_AT * atMost
    const text = `SELECT count(*) AS looked, count(*) FILTER (
      WHERE (state = 'cancelled') = $3 AND queue = ANY($2::text[])) AS n FROM ${owed}`
    const [row] = await this.#reader.rows(text, [look, kind.queues, kind.ofCancels])
    return Number(row?.['looked']) < look ? Math.min(Number(row?.['n']), atMost) : atMost
  }

  async queueIdentity(name: string): Promise<string | null> {
    const text = `SELECT identity FROM ${this.#queues} WHERE name = $1`
    return (await this.#reader.rows(text, [name]))[0]?.['identity'] ?? null
  }

  async expiring(wall: number, limit: number): ReturnType<Reads['expiring']> {
    const text = `SELECT e.queue, count(*)::int AS count FROM (${expiredKeys(this.#jobs)}) e GROUP BY e.queue`
    const rows = await this.#reader.rows(text, [wall, limit])
    const count = rows.reduce((sum, row) => sum + Number(row['count']), 0)
    return { queues: rows.map(({ queue }) => String(queue)), count }
  }

  async isTombstoned(id: string, queue: string | null): Promise<boolean> {
    if (this.#memory.tombstones === 0) return false
    const text = `SELECT 1 FROM ${this.#tombstones}
      WHERE id = $1 AND (NOT is_scoped OR $2::text IS NULL OR queue = $2)`
    return (await this.#reader.rows(text, [id, queue])).length > 0
  }

  /** The newest of each queue's cancelled rows and tombstones. */
  async tombstones(
    queues: readonly string[],
    limit: number,
  ): Promise<{ cancelled: CancelledMessage[]; truncated: boolean }> {
    const text = `SELECT c.id, c.generation FROM unnest($1::text[]) AS q (name) CROSS JOIN LATERAL (
        (SELECT id, generation, cancelled_at FROM ${this.#jobs}
          WHERE queue = q.name AND ended_at IS NOT NULL AND message_out AND cancelled_at IS NOT NULL
          ORDER BY cancelled_at DESC LIMIT $2)
        UNION ALL
        (SELECT t.id, coalesce((SELECT j.generation - 1 FROM ${this.#jobs} j WHERE j.id = t.id), 0),
            t.cancelled_at
          FROM ${this.#tombstones} t WHERE t.queue = q.name ORDER BY t.cancelled_at DESC LIMIT $2)) c
      ORDER BY c.cancelled_at DESC LIMIT $2`
    const rows = await this.#reader.rows(text, [[...new Set(queues)], limit + 1])
    const found = rows as readonly unknown[] as CancelledMessage[]
    return { cancelled: found.slice(0, limit), truncated: found.length > limit }
  }

  async #jobRows(where: string, values: readonly unknown[]): Promise<JobRow[]> {
    const text = `SELECT ${ROW}, ${TEXTS} FROM ${this.#jobs} j JOIN ${this.#bodies} b USING (id)
      WHERE ${where}`
    return jobsOf(await this.#reader.rows(text, values))
  }
}

function ownIds(leases: readonly Record<string, unknown>[]): string[] {
  return leases.filter(({ own }) => own === true).map(({ id }) => String(id))
}
