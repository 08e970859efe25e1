/** What happened in each queue: the last hour in memory, a day by the minute and 30 days by the hour in the file. */
import { histogramText, readHistogram } from '../../../job/values/histogram.ts'
import type { KnownTraffic } from '../../known.ts'
import type { Traffic, TrafficPoint, TrafficQuery } from '../../queues.ts'
import type { TrafficReads } from '../../reads.ts'
import {
  ALL,
  addBucket,
  type Bucket,
  bucketAt,
  FLUSH_MS,
  FLUSHED_AT_ONCE,
  type Forgotten,
  KEPT_FOR,
  MAX_ROWS,
  MINUTE_MS,
  placesOf,
  pointsOf,
  RecentTraffic,
  spanAt,
  surplusUpTo,
  type TrafficNote,
  TrafficNotes,
} from '../../writes/traffic.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'
import type { TrafficRow } from '../sql/traffic.ts'

/**
 * A job costs three notes in memory. What is committed waits in memory for at most a second more and is then
 * added to the rows of its minute and hour, so that a row is written once a second and not with each group.
 */
export class TrafficMinutes
  extends NotedState<TrafficNote | Forgotten>
  implements KnownTraffic, TrafficReads
{
  /** For the writes. */
  readonly note = new TrafficNotes((note) => this.notes.add(note))
  readonly #statements: Statements
  /** Called when something waits to be written, and no group may come. */
  readonly #wake: (delayMs: number) => void
  readonly #recent = new RecentTraffic()
  #written: string[] = []
  #flushAt = 0
  readonly #rows = new Map<number, number>()

  constructor(statements: Statements, wake: (delayMs: number) => void) {
    super()
    this.#statements = statements
    this.#wake = wake
    for (const { queue, ...minute } of statements.lastMinutes.all(MINUTE_MS)) {
      this.#recent.load(queue, minute)
    }
    for (const [spanMs] of KEPT_FOR) {
      this.#rows.set(spanMs, statements.countTraffic.get(spanMs)?.count ?? 0)
    }
  }

  lastHour(queue: string, now: number): Traffic {
    return this.#recent.lastHour(queue, now)
  }

  wholeMinutes(queue: string, now: number, minutes: number): Traffic {
    return this.#recent.wholeMinutes(queue, now, minutes)
  }

  async history(query: TrafficQuery): Promise<TrafficPoint[]> {
    const { queue } = query
    const { spanMs, first, end } = placesOf(query)
    const found = new Map<number, Bucket>()
    for (let at = first; at < end; at++) {
      const row = this.#statements.traffic.get(spanMs, at, queue ?? ALL)
      if (row) found.set(at, bucketOf(row))
    }
    for (const [name, minutes] of this.#recent.pending(Number.POSITIVE_INFINITY)) {
      if (queue !== null && queue !== name) continue
      for (const bucket of minutes) {
        const at = spanAt(spanMs, bucket)
        if (at >= first && at < end) addBucket(bucketAt(found, at), bucket)
      }
    }
    return pointsOf(found.values(), spanMs)
  }

  /** The minute in which something happened in the queue last, as ms; 0: nothing is known. */
  lastAt(queue: string): number {
    return this.#recent.lastAt(queue)
  }

  /** Inside a write: drops the last hour of a forgotten queue from memory; what is in the file is pruned by its time. */
  forget(queue: string): void {
    this.notes.add(queue)
  }

  /** Inside a write, at a start: see `RecentTraffic.forgetAfter`. */
  forgetAfter(now: number): void {
    for (const [spanMs] of KEPT_FOR) {
      const { changes } = this.#statements.forgetTrafficAfter.run(spanMs, Math.floor(now / spanMs))
      this.#rows.set(spanMs, (this.#rows.get(spanMs) ?? 0) - changes)
    }
    this.#recent.forgetAfter(now)
  }

  override store(): void {
    if (this.#recent.pendingQueues > 0 && performance.now() >= this.#flushAt)
      this.#flush(FLUSHED_AT_ONCE)
  }

  /** Inside a transaction, before the file is closed. */
  storeAll(): void {
    this.#flush(Number.POSITIVE_INFINITY)
  }

  #flush(atMost: number): void {
    const written: string[] = []
    for (const [queue, minutes] of this.#recent.pending(atMost)) {
      for (const bucket of minutes) {
        for (const [spanMs] of KEPT_FOR) {
          this.#add(spanMs, queue, bucket)
          this.#add(spanMs, ALL, bucket)
        }
      }
      written.push(queue)
    }
    this.#written = written
  }

  #add(spanMs: number, queue: string, given: Bucket): void {
    const at = spanAt(spanMs, given)
    const row = this.#statements.traffic.get(spanMs, at, queue)
    const bucket = row ? bucketOf(row) : bucketAt(new Map(), at)
    addBucket(bucket, given)
    const { enqueued, completed, failed, retried, timed, durationMs, waited, waitMs } = bucket
    const counts = [
      enqueued,
      completed,
      failed,
      retried,
      timed,
      durationMs,
      waited,
      waitMs,
    ] as const
    const histograms = [histogramText(bucket.durations), histogramText(bucket.waits)] as const
    this.#statements.keepTraffic.run(spanMs, at, queue, ...counts, ...histograms)
    if (!row) this.#made(spanMs, at)
  }

  /** Keeps the rows of a span within their time and number. */
  #made(spanMs: number, at: number): void {
    const keep = KEPT_FOR.find(([span]) => span === spanMs)?.[1] ?? 0
    const { pruneTraffic, countTraffic } = this.#statements
    let rows = (this.#rows.get(spanMs) ?? 0) + 1
    rows -= pruneTraffic.run(spanMs, at - keep).changes
    if (rows > MAX_ROWS) {
      const counted = countTraffic.get(spanMs)
      rows = counted?.count ?? 0
      rows -= pruneTraffic.run(spanMs, surplusUpTo(counted?.oldest ?? at, at)).changes
    }
    this.#rows.set(spanMs, rows)
  }

  override commit(): void {
    this.#recent.stored(this.#written)
    if (this.#written.length > 0 && this.#recent.pendingQueues === 0)
      this.#flushAt = performance.now() + FLUSH_MS
    this.#written = []
    super.commit()
    if (this.#recent.pendingQueues > 0) this.#wake(FLUSH_MS)
  }

  protected override apply(notes: readonly (TrafficNote | Forgotten)[]): void {
    this.#recent.add(notes)
  }

  override discard(): void {
    super.discard()
    this.#written = []
  }
}

function bucketOf({ at, durations, waits, queue: _, ...counts }: TrafficRow): Bucket {
  return { at, ...counts, durations: readHistogram(durations), waits: readHistogram(waits) }
}
