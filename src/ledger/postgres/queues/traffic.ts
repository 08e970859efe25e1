/** What happened in queues, stored by the minute and by the hour. */
import { histogramText, readHistogram } from '../../../job/values/histogram.ts'
import type { TrafficPoint, TrafficQuery } from '../../queues.ts'
import type { TrafficReads } from '../../reads.ts'
import {
  ALL,
  addBucket,
  type Bucket,
  bucketAt,
  FLUSH_MS,
  FLUSHED_AT_ONCE,
  KEPT_FOR,
  MAX_ROWS,
  placesOf,
  pointsOf,
  spanAt,
  surplusUpTo,
} from '../../writes/traffic.ts'
import type { Row } from '../connection.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups, Write } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import type { PartDeps } from '../part.ts'
import type { Reader } from '../reader.ts'

interface Deps extends PartDeps {
  slotId: number
}

/** A minute or an hour of a queue. */
interface Place {
  queue: string
  spanMs: number
  bucket: Bucket
}

/**
 * What is committed waits in memory for a second, and is then added to the rows of its minute and hour that this
 * slot has: they are written by nobody else, and once a second.
 */
export class PostgresTraffic implements TrafficReads {
  readonly #groups: Groups
  readonly #reader: Reader
  readonly #memory: Memory
  readonly #schema: string
  readonly #slotId: number
  #timer: NodeJS.Timeout | undefined

  constructor({ groups, reader, memory, schema, slotId }: Deps) {
    this.#groups = groups
    this.#reader = reader
    this.#memory = memory
    this.#schema = schema
    this.#slotId = slotId
    memory.traffic.onPending = () => this.#later()
  }

  /** Of all slots. */
  async history(query: TrafficQuery): Promise<TrafficPoint[]> {
    // What cannot be stored is missing; what is stored can be read all the same.
    await this.store().catch(() => {})
    const { spanMs, first, end } = placesOf(query)
    const text = `SELECT ${COLUMNS} FROM ${this.#schema}.traffic t
      WHERE queue = $1 AND span_ms = $2 AND at >= $3 AND at < $4`
    const rows = await this.#reader.rows(text, [query.queue ?? ALL, spanMs, first, end])
    const found = new Map<number, Bucket>()
    for (const row of rows) addBucket(bucketAt(found, row['at']), bucketOf(row))
    return pointsOf(found.values(), spanMs)
  }

  /** Stores all that was committed before. */
  async store(): Promise<void> {
    let left = this.#memory.traffic.pendingQueues
    for (; left > 0; left -= FLUSHED_AT_ONCE) await this.#groups.write(this.#flush())
  }

  /** What is still to be written when the ledger is closed; null: nothing. */
  last(): Write<void> | null {
    clearTimeout(this.#timer)
    return this.#memory.traffic.pendingQueues === 0 ? null : this.#flush()
  }

  #later(): void {
    const again = () => {
      this.#timer = undefined
      if (this.#memory.traffic.pendingQueues > 0) this.#later()
    }
    this.#timer ??= setTimeout(() => {
      // Dropped, it is tried again with the next change.
      if (!this.#groups.lazily(this.#flush(), again)) this.#timer = undefined
    }, FLUSH_MS).unref()
  }

  #flush(): Write<void> {
    const run = (draft: Draft) => flush(draft, this.#slotId)
    return { wants: {}, run, isAlone: true }
  }
}

const COLUMNS = `t.at, t.enqueued, t.completed, t.failed, t.retried, t.timed,
  t.duration_ms AS "durationMs", t.waited, t.wait_ms AS "waitMs", t.durations, t.waits`

function bucketOf(row: Row): Bucket {
  const { durations, waits, ...counts } = row
  const histograms = { durations: readHistogram(durations), waits: readHistogram(waits) }
  return { ...(counts as Omit<Bucket, 'durations' | 'waits'>), ...histograms }
}

function flush(draft: Draft, slot: number): void {
  const { traffic } = draft.memory
  const pending = [...traffic.pending(FLUSHED_AT_ONCE)]
  if (pending.length === 0) return
  const places = placesWith(pending)
  const stored = storedOf(draft, slot, [...places.values()])
  const made: Place[] = []
  for (const [key, place] of places) {
    const before = stored.get(key)
    if (before) addBucket(place.bucket, before)
    else made.push(place)
  }
  makeRoom(draft, made)
  draft.changes.store(storedAs(draft.schema, slot, [...places.values()]), () =>
    traffic.stored(pending.map(([queue]) => queue)),
  )
}

function keyOf(spanMs: number, at: number, queue: string): string {
  return `${spanMs} ${at} ${queue}`
}

/** What is pending, by minute and by hour, of each queue and of all together. */
function placesWith(
  pending: readonly (readonly [queue: string, minutes: readonly Bucket[]])[],
): Map<string, Place> {
  const places = new Map<string, Place>()
  for (const [name, minutes] of pending)
    for (const minute of minutes)
      for (const [spanMs] of KEPT_FOR)
        for (const queue of [name, ALL]) {
          const at = spanAt(spanMs, minute)
          const key = keyOf(spanMs, at, queue)
          const place = places.get(key) ?? { queue, spanMs, bucket: bucketAt(new Map(), at) }
          places.set(key, place)
          addBucket(place.bucket, minute)
        }
  return places
}

/** What this slot has stored of these places before. */
function storedOf(draft: Draft, slot: number, places: readonly Place[]): Map<string, Bucket> {
  // LIMIT: each row is looked up by the key, whatever the planner thinks of the lists.
  const text = `SELECT w.queue, w.span_ms AS "spanMs", s.*
    FROM unnest($1::text[], $2::int[], $3::bigint[]) AS w (queue, span_ms, at)
    CROSS JOIN LATERAL (SELECT ${COLUMNS} FROM ${draft.schema}.traffic t
      WHERE t.queue = w.queue AND t.span_ms = w.span_ms AND t.at = w.at AND t.slot = $4 LIMIT 1) s`
  const values = [
    places.map(({ queue }) => queue),
    places.map(({ spanMs }) => spanMs),
    places.map(({ bucket }) => bucket.at),
    slot,
  ]
  const rows = draft.ask({ text, values })
  return new Map(
    rows.map(({ queue, spanMs, ...row }) => [keyOf(spanMs, row['at'], queue), bucketOf(row)]),
  )
}

function storedAs(schema: string, slot: number, places: readonly Place[]) {
  const rows = places.map(({ queue, spanMs, bucket: { durations, waits, ...counts } }) => ({
    ...{ queue, spanMs, ...counts },
    ...{ durations: histogramText(durations), waits: histogramText(waits) },
  }))
  const text = `INSERT INTO ${schema}.traffic (slot, span_ms, at, queue, enqueued, completed, failed,
      retried, timed, duration_ms, waited, wait_ms, durations, waits)
    SELECT $1, n."spanMs", n.at, n.queue, n.enqueued, n.completed, n.failed, n.retried, n.timed,
      n."durationMs", n.waited, n."waitMs", n.durations, n.waits
    FROM json_to_recordset($2) AS n ("spanMs" int, at bigint, queue text, enqueued bigint,
      completed bigint, failed bigint, retried bigint, timed bigint, "durationMs" bigint, waited bigint,
      "waitMs" bigint, durations text, waits text)
    ON CONFLICT (queue, span_ms, at, slot) DO UPDATE SET enqueued = excluded.enqueued,
      completed = excluded.completed, failed = excluded.failed, retried = excluded.retried,
      timed = excluded.timed, duration_ms = excluded.duration_ms, waited = excluded.waited,
      wait_ms = excluded.wait_ms, durations = excluded.durations, waits = excluded.waits`
  return { text, values: [slot, JSON.stringify(rows)] }
}

/** Keeps the rows of each span within their time and number. */
function makeRoom(draft: Draft, made: readonly Place[]): void {
  const { trafficRows } = draft.memory
  for (const [spanMs, kept] of KEPT_FOR) {
    const ats = made.filter((place) => place.spanMs === spanMs).map(({ bucket }) => bucket.at)
    if (ats.length === 0) continue
    const newest = Math.max(...ats)
    let rows = (trafficRows.get(spanMs) ?? 0) + ats.length
    rows -= prune(draft, spanMs, newest - kept)
    if (rows > MAX_ROWS) {
      const text = `SELECT min(at) AS at FROM ${draft.schema}.traffic WHERE span_ms = $1`
      const oldest = Number(draft.ask({ text, values: [spanMs] })[0]?.['at'] ?? newest)
      rows -= prune(draft, spanMs, surplusUpTo(oldest, newest))
    }
    draft.changes.setIn(trafficRows, spanMs, rows, null)
  }
}

function prune(draft: Draft, spanMs: number, upTo: number): number {
  const text = `DELETE FROM ${draft.schema}.traffic WHERE span_ms = $1 AND at <= $2`
  return draft.execute(text, [spanMs, upTo])
}

/** See `RecentTraffic.forgetAfter`. */
export function forgetTrafficAfter(draft: Draft, now: number): void {
  const { traffic, trafficRows } = draft.memory
  for (const [spanMs] of KEPT_FOR) {
    const text = `DELETE FROM ${draft.schema}.traffic WHERE span_ms = $1 AND at > $2`
    const gone = draft.execute(text, [spanMs, Math.floor(now / spanMs)])
    draft.changes.setIn(trafficRows, spanMs, (trafficRows.get(spanMs) ?? 0) - gone, null)
  }
  draft.changes.store(null, () => traffic.forgetAfter(now))
}
