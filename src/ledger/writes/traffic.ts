/** What happens in queues, noted by writes, added up by the minute, and in memory until it is stored. */
import type { JobRow } from '../../job/job.ts'
import { addTo, type Histogram, mergeInto } from '../../job/values/histogram.ts'
import type { KnownTraffic } from '../known.ts'
import type { Traffic, TrafficPoint, TrafficQuery } from '../queues.ts'

export const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const MINUTES = 60
/** How many minutes and hours are stored: a day, and 30 days. */
export const KEPT_FOR: readonly [spanMs: number, count: number][] = [
  [MINUTE_MS, 24 * 60],
  [HOUR_MS, 30 * 24],
]
/** Stored rows of each span, some 200 bytes each. With more, the oldest are dropped before their time. */
export const MAX_ROWS = 200_000
/** The queues that one group writes: its own writes wait for them. */
export const FLUSHED_AT_ONCE = 100
/** How long traffic is in memory only; a kill forgets that much of it. */
export const FLUSH_MS = 1_000
/** All queues together. */
export const ALL = ''
/**
 * The longest duration or wait that counts: 100 days. A longer one was not measured: a program that sets no
 * time sends 1970 or the year 1. A million of these a minute still add up to a safe integer.
 */
const MAX_MS = 8_640_000_000

/** `at`: its number since 1970. */
export interface Minute extends Traffic {
  at: number
}

/** A minute or an hour. */
export interface Bucket extends Minute {
  durations: Histogram
  waits: Histogram
}

export interface TrafficNote {
  queue: string
  minute: number
  kind: 'enqueued' | 'withdrawn' | 'completed' | 'timed' | 'failed' | 'retried' | 'waited'
  /** The duration (`timed`) or the wait (`waited`). */
  ms: number
}

/** A queue that is forgotten: what was noted of it before does not count any more. */
export type Forgotten = string

/** `isTimed`: `startedAt` is when the attempt began. `elapsedMs`: how long it took, as its worker reports. */
export interface Timing {
  isTimed: boolean
  elapsedMs?: number | undefined
}

export const TIMED: Timing = { isTimed: true }

type Began = Pick<JobRow, 'queue' | 'startedAt' | 'enqueuedAt'>
type Completed = Pick<JobRow, 'queue' | 'startedAt' | 'completedAt'>

/** Each method is called inside the write. `at`: clock time, ms. */
export class TrafficNotes {
  readonly #add: (note: TrafficNote) => void

  constructor(add: (note: TrafficNote) => void) {
    this.#add = add
  }

  /** A job is stored. */
  enqueued(queue: string, at: number): void {
    this.#note(queue, at, 'enqueued', 0)
  }

  /** A job that was stored just now is erased. */
  withdrawn(queue: string, at: number): void {
    this.#note(queue, at, 'withdrawn', 0)
  }

  /**
   * An attempt of `job` begins. `isTimed`: `startedAt` is when. A job that a native worker had already did not wait
   * in the queue.
   */
  began(job: Began, before: Pick<JobRow, 'state' | 'holder'>, isTimed = true): void {
    const hasWaited = isTimed && before.state !== 'active' && before.holder !== 'native'
    if (!hasWaited || job.startedAt === null) return
    this.#waited(job.queue, job.startedAt, job.startedAt - job.enqueuedAt)
  }

  /** A job is completed. */
  completed(job: Completed, { isTimed, elapsedMs = Number.POSITIVE_INFINITY }: Timing): void {
    if (job.completedAt === null) return
    const isKnown = isTimed && job.startedAt !== null
    // The report may have waited for minutes: the worker's own measure is then the shorter and better one.
    const durationMs = isKnown ? Math.min(elapsedMs, job.completedAt - (job.startedAt ?? 0)) : null
    this.#completed(job.queue, job.completedAt, durationMs)
  }

  /** `durationMs` null: the start of the attempt is not known. */
  #completed(queue: string, at: number, durationMs: number | null): void {
    const isTimed = durationMs !== null && durationMs <= MAX_MS
    this.#note(queue, at, isTimed ? 'timed' : 'completed', isTimed ? durationMs : 0)
  }

  /** An attempt has failed, whatever becomes of the job. */
  failed(queue: string, at: number): void {
    this.#note(queue, at, 'failed', 0)
  }

  /** The job will be tried again. */
  retried(queue: string, at: number): void {
    this.#note(queue, at, 'retried', 0)
  }

  /** An attempt begins after `waitMs` in the queue. */
  #waited(queue: string, at: number, waitMs: number): void {
    if (waitMs <= MAX_MS) this.#note(queue, at, 'waited', waitMs)
  }

  /** `ms` may be negative: an attempt that began before the clock was set back began later than `at`. */
  #note(queue: string, at: number, kind: TrafficNote['kind'], ms: number): void {
    this.#add({ queue, minute: minuteOf(at), kind, ms: Math.max(0, ms) })
  }
}

/** The last hour of each queue, and what is committed but not stored yet. */
export class RecentTraffic implements KnownTraffic {
  /** By queue. The index of a minute is its number modulo 60. */
  readonly #lastHour = new Map<string, (Minute | undefined)[]>()
  /** By queue, then by minute. */
  readonly #pending = new Map<string, Map<number, Bucket>>()
  /** Called when something waits to be stored. */
  onPending = () => {}

  /** A minute as it is stored, at a start. */
  load(queue: string, { at, ...counts }: Minute): void {
    const minute = this.#minuteOfLastHour(queue, at)
    if (minute) addCounts(minute, counts)
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

  /** The minute in which something happened in the queue last, as ms; 0: nothing is known. */
  lastAt(queue: string): number {
    let last = 0
    for (const minute of this.#lastHour.get(queue) ?? []) last = Math.max(last, minute?.at ?? 0)
    return last * MINUTE_MS
  }

  /** Drops the last hour of a forgotten queue; what is stored is pruned by its time. */
  forget(queue: string): void {
    this.#lastHour.delete(queue)
  }

  /**
   * Forgets what lies after `now` (the clock was set back). It would keep its places among the sixty from the
   * current minutes, so that nothing would be counted until its time.
   */
  forgetAfter(now: number): void {
    const current = minuteOf(now)
    for (const minutes of this.#lastHour.values()) {
      for (const [place, minute] of minutes.entries()) {
        if (minute && minute.at > current) minutes[place] = undefined
      }
    }
    for (const [queue, minutes] of this.#pending) {
      for (const at of minutes.keys()) if (at > current) minutes.delete(at)
      if (minutes.size === 0) this.#pending.delete(queue)
    }
  }

  /** After the commit. */
  add(notes: readonly (TrafficNote | Forgotten)[]): void {
    for (const note of notes) {
      if (typeof note === 'string') {
        this.forget(note)
        continue
      }
      const { queue, minute: at } = note
      const bucket = bucketAt(this.#minutesOf(queue), at)
      count(bucket, note)
      if (note.kind === 'timed') addTo(bucket.durations, note.ms)
      if (note.kind === 'waited') addTo(bucket.waits, note.ms)
      const minute = this.#minuteOfLastHour(queue, at)
      if (minute) count(minute, note)
    }
    if (this.#pending.size > 0) this.onPending()
  }

  /** Of how many queues something waits to be stored. */
  get pendingQueues(): number {
    return this.#pending.size
  }

  /** What is to be stored next, of at most so many queues. */
  *pending(atMost: number): Generator<[queue: string, minutes: Bucket[]]> {
    let left = atMost
    for (const [queue, minutes] of this.#pending) {
      if (left-- <= 0) return
      yield [queue, [...minutes.values()]]
    }
  }

  /** All that was pending of these queues is stored. */
  stored(queues: Iterable<string>): void {
    for (const queue of queues) this.#pending.delete(queue)
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

/** The number of the minute or hour that contains this minute. */
export function spanAt(spanMs: number, { at }: Minute): number {
  return Math.floor((at * MINUTE_MS) / spanMs)
}

/** The minutes or hours that a query is about: from `first` up to, without, `end`. */
export function placesOf({ span, from, to }: TrafficQuery): {
  spanMs: number
  first: number
  end: number
} {
  const spanMs = span === 'minute' ? MINUTE_MS : HOUR_MS
  return { spanMs, first: Math.floor(from / spanMs), end: Math.ceil(to / spanMs) }
}

/** The points of minutes or hours, oldest first. */
export function pointsOf(buckets: Iterable<Bucket>, spanMs: number): TrafficPoint[] {
  return [...buckets]
    .sort((a, b) => a.at - b.at)
    .map(({ at, ...bucket }) => ({ ...bucket, start: at * spanMs }))
}

export function bucketAt(buckets: Map<number, Bucket>, at: number): Bucket {
  const known = buckets.get(at)
  if (known) return known
  const bucket = { ...NONE, at, durations: new Map(), waits: new Map() }
  buckets.set(at, bucket)
  return bucket
}

export function addBucket(bucket: Bucket, other: Bucket): void {
  addCounts(bucket, other)
  mergeInto(bucket.durations, other.durations)
  mergeInto(bucket.waits, other.waits)
}

/** There are too many rows: those up to this one go, so that the next ones have room. */
export function surplusUpTo(oldest: number, newest: number): number {
  return oldest + Math.floor((newest - oldest) / 16)
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

function count(traffic: Traffic, { kind, ms }: TrafficNote): void {
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
