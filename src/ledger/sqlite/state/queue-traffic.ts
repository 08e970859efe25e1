/** What happened in each queue: the last hour in memory, a day by the minute and 30 days by the hour in the file. */
import {
  addTo,
  type Histogram,
  histogramText,
  mergeInto,
  readHistogram,
} from '../../../job/values/histogram.ts'
import type { KnownTraffic } from '../../known.ts'
import type { Traffic, TrafficPoint, TrafficQuery } from '../../queues.ts'
import type { TrafficReads } from '../../reads.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'
import type { TrafficRow } from '../sql/traffic.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const MINUTES = 60
/** How many minutes and hours are kept in the file: a day, and 30 days. */
const KEPT_FOR: readonly [spanMs: number, count: number][] = [
  [MINUTE_MS, 24 * 60],
  [HOUR_MS, 30 * 24],
]
/** Rows of each span in the file, some 200 bytes each. With more, the oldest are dropped before their time. */
const MAX_ROWS = 200_000
/** The queues that one group writes: each costs some 50 µs, which the group's own writes wait for. */
const FLUSHED_AT_ONCE = 100
/** How long traffic is in memory only; a kill forgets that much of it. */
const FLUSH_MS = 1_000
/** All queues together. */
const ALL = ''
/**
 * The longest duration or wait that counts: 100 days. A longer one was not measured: a program that sets no
 * time sends 1970 or the year 1. A million of these a minute still add up to a safe integer.
 */
const MAX_MS = 8_640_000_000

/** `at`: its number since 1970. */
interface Minute extends Traffic {
  at: number
}

/** A minute or an hour. */
interface Bucket extends Minute {
  durations: Histogram
  waits: Histogram
}

interface Note {
  queue: string
  minute: number
  kind: 'enqueued' | 'withdrawn' | 'completed' | 'timed' | 'failed' | 'retried' | 'waited'
  /** The duration (`timed`) or the wait (`waited`). */
  ms: number
}

/**
 * A job costs three notes in memory. What is committed waits in memory for at most a second more and is then
 * added to the rows of its minute and hour, so that a row is written once a second and not with each group.
 */
export class TrafficMinutes extends NotedState<Note> implements KnownTraffic, TrafficReads {
  readonly #statements: Statements
  /** Called when something waits to be written, and no group may come. */
  readonly #wake: (delayMs: number) => void
  /** The last hour as committed, by queue. The index of a minute is its number modulo 60. */
  readonly #lastHour = new Map<string, (Minute | undefined)[]>()
  /** Committed, and not yet in the file: by queue, then by minute. */
  readonly #pending = new Map<string, Map<number, Bucket>>()
  #written: string[] = []
  #flushAt = 0
  readonly #rows = new Map<number, number>()

  constructor(statements: Statements, wake: (delayMs: number) => void) {
    super()
    this.#statements = statements
    this.#wake = wake
    for (const { at, queue, ...traffic } of statements.lastMinutes.all(MINUTE_MS)) {
      const minute = this.#minuteOfLastHour(queue, at)
      if (minute) addCounts(minute, traffic)
    }
    for (const [spanMs] of KEPT_FOR) {
      this.#rows.set(spanMs, statements.countTraffic.get(spanMs)?.count ?? 0)
    }
  }

  lastHour(queue: string, now: number): Traffic {
    const current = minuteOf(now)
    return this.#between(queue, current - MINUTES, current)
  }

  wholeMinutes(queue: string, now: number, minutes: number): Traffic {
    const last = minuteOf(now) - 1
    return this.#between(queue, last - minutes, last)
  }

  /** The minutes after `after`, up to `last`. */
  #between(queue: string, after: number, last: number): Traffic {
    const total = { ...NONE }
    for (const minute of this.#lastHour.get(queue) ?? []) {
      if (!minute || minute.at > last || minute.at <= after) continue
      addCounts(total, minute)
    }
    return total
  }

  async history({ queue, span, from, to }: TrafficQuery): Promise<TrafficPoint[]> {
    const spanMs = span === 'minute' ? MINUTE_MS : HOUR_MS
    const found = new Map<number, Bucket>()
    for (let at = Math.floor(from / spanMs); at * spanMs < to; at++) {
      const row = this.#statements.traffic.get(spanMs, at, queue ?? ALL)
      if (row) found.set(at, bucketOf(row))
    }
    for (const [name, minutes] of this.#pending) {
      if (queue !== null && queue !== name) continue
      for (const [minute, bucket] of minutes) {
        const at = Math.floor((minute * MINUTE_MS) / spanMs)
        const isMeant = at * spanMs < to && at >= Math.floor(from / spanMs)
        if (isMeant) addBucket(bucketAt(found, at), bucket)
      }
    }
    return [...found.values()]
      .sort((a, b) => a.at - b.at)
      .map(({ at, ...bucket }) => ({ ...bucket, start: at * spanMs }))
  }

  /** The minute in which something happened in the queue last, as ms; 0: nothing is known. */
  lastAt(queue: string): number {
    let last = 0
    for (const minute of this.#lastHour.get(queue) ?? []) last = Math.max(last, minute?.at ?? 0)
    return last * MINUTE_MS
  }

  /** Drops the last hour of a forgotten queue from memory; what is in the file is pruned by its time. */
  forget(queue: string): void {
    this.#lastHour.delete(queue)
  }

  /**
   * Inside a write, at a start: forgets what lies after `now` (the clock was set back). It would keep its
   * places among the sixty from the current minutes, so that nothing would be counted until its time.
   */
  forgetAfter(now: number): void {
    for (const [spanMs] of KEPT_FOR) {
      const { changes } = this.#statements.forgetTrafficAfter.run(spanMs, Math.floor(now / spanMs))
      this.#rows.set(spanMs, (this.#rows.get(spanMs) ?? 0) - changes)
    }
    const current = minuteOf(now)
    for (const minutes of this.#lastHour.values()) {
      for (const [place, minute] of minutes.entries()) {
        if (minute && minute.at > current) minutes[place] = undefined
      }
    }
  }

  /** Inside a write: a job is stored. */
  enqueued(queue: string, at: number): void {
    this.#note(queue, at, 'enqueued', 0)
  }

  /** Inside a write: a job that was stored just now is erased. */
  withdrawn(queue: string, at: number): void {
    this.#note(queue, at, 'withdrawn', 0)
  }

  /** Inside a write: a job is completed. `durationMs` null: the start of the attempt is not known. */
  completed(queue: string, at: number, durationMs: number | null): void {
    const isTimed = durationMs !== null && durationMs <= MAX_MS
    this.#note(queue, at, isTimed ? 'timed' : 'completed', isTimed ? durationMs : 0)
  }

  /** Inside a write: an attempt has failed, whatever becomes of the job. */
  failed(queue: string, at: number): void {
    this.#note(queue, at, 'failed', 0)
  }

  /** Inside a write: the job will be tried again. */
  retried(queue: string, at: number): void {
    this.#note(queue, at, 'retried', 0)
  }

  /** Inside a write: an attempt begins after `waitMs` in the queue. */
  waited(queue: string, at: number, waitMs: number): void {
    if (waitMs <= MAX_MS) this.#note(queue, at, 'waited', waitMs)
  }

  /** `ms` may be negative: an attempt that began before the clock was set back began later than `at`. */
  #note(queue: string, at: number, kind: Note['kind'], ms: number): void {
    this.notes.add({ queue, minute: minuteOf(at), kind, ms: Math.max(0, ms) })
  }

  override store(): void {
    if (this.#pending.size > 0 && performance.now() >= this.#flushAt) this.#flush(FLUSHED_AT_ONCE)
  }

  /** Inside a transaction, before the file is closed. */
  storeAll(): void {
    this.#flush(Number.POSITIVE_INFINITY)
  }

  #flush(atMost: number): void {
    const written: string[] = []
    for (const [queue, minutes] of this.#pending) {
      if (written.length === atMost) break
      for (const bucket of minutes.values()) {
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
    const at = Math.floor((given.at * MINUTE_MS) / spanMs)
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
      const oldest = counted?.oldest ?? at
      rows = counted?.count ?? 0
      // A sixteenth of the time, so that the next rows have room.
      rows -= pruneTraffic.run(spanMs, oldest + Math.floor((at - oldest) / 16)).changes
    }
    this.#rows.set(spanMs, rows)
  }

  override commit(): void {
    for (const queue of this.#written) this.#pending.delete(queue)
    if (this.#written.length > 0 && this.#pending.size === 0)
      this.#flushAt = performance.now() + FLUSH_MS
    this.#written = []
    super.commit()
    if (this.#pending.size > 0) this.#wake(FLUSH_MS)
  }

  protected override apply(notes: readonly Note[]): void {
    for (const note of notes) {
      const { queue, minute: at } = note
      const bucket = bucketAt(this.#minutesOf(queue), at)
      count(bucket, note)
      if (note.kind === 'timed') addTo(bucket.durations, note.ms)
      if (note.kind === 'waited') addTo(bucket.waits, note.ms)
      const minute = this.#minuteOfLastHour(queue, at)
      if (minute) count(minute, note)
    }
  }

  override discard(): void {
    super.discard()
    this.#written = []
  }

  #minutesOf(queue: string): Map<number, Bucket> {
    const known = this.#pending.get(queue)
    if (known) return known
    const minutes = new Map<number, Bucket>()
    this.#pending.set(queue, minutes)
    return minutes
  }

  /** Null: a newer minute has its place. A native worker may report a start of an hour ago or more. */
  #minuteOfLastHour(queue: string, at: number): Minute | null {
    let minutes = this.#lastHour.get(queue)
    if (!minutes) {
      minutes = []
      this.#lastHour.set(queue, minutes)
    }
    const place = at % MINUTES
    const known = minutes[place]
    if (known && known.at >= at) return known.at === at ? known : null
    const minute = { ...NONE, at }
    minutes[place] = minute
    return minute
  }
}

const NONE: Readonly<Traffic> = {
  enqueued: 0,
  completed: 0,
  failed: 0,
  retried: 0,
  timed: 0,
  durationMs: 0,
  waited: 0,
  waitMs: 0,
}

function minuteOf(ms: number): number {
  return Math.floor(ms / MINUTE_MS)
}

function bucketAt(buckets: Map<number, Bucket>, at: number): Bucket {
  const known = buckets.get(at)
  if (known) return known
  const bucket = { ...NONE, at, durations: new Map(), waits: new Map() }
  buckets.set(at, bucket)
  return bucket
}

function bucketOf({ at, durations, waits, queue: _, ...counts }: TrafficRow): Bucket {
  return { at, ...counts, durations: readHistogram(durations), waits: readHistogram(waits) }
}

function addBucket(bucket: Bucket, other: Bucket): void {
  addCounts(bucket, other)
  mergeInto(bucket.durations, other.durations)
  mergeInto(bucket.waits, other.waits)
}

function addCounts(traffic: Traffic, other: Traffic): void {
  traffic.enqueued += other.enqueued
  traffic.completed += other.completed
  traffic.failed += other.failed
  traffic.retried += other.retried
  traffic.timed += other.timed
  traffic.durationMs = Math.min(traffic.durationMs + other.durationMs, Number.MAX_SAFE_INTEGER)
  traffic.waited += other.waited
  traffic.waitMs = Math.min(traffic.waitMs + other.waitMs, Number.MAX_SAFE_INTEGER)
}

function count(traffic: Traffic, { kind, ms }: Note): void {
  switch (kind) {
    case 'enqueued':
      traffic.enqueued++
      return
    case 'withdrawn':
      traffic.enqueued--
      return
    case 'timed':
      traffic.completed++
      traffic.timed++
      traffic.durationMs += ms
      return
    case 'completed':
      traffic.completed++
      return
    case 'failed':
      traffic.failed++
      return
    case 'retried':
      traffic.retried++
      return
    case 'waited':
      traffic.waited++
      traffic.waitMs += ms
  }
}
