/** The last hour of each queue, minute by minute. */
import type { QueueTraffic, Traffic } from '../../queues.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'

const MINUTE_MS = 60_000
const MINUTES = 60
/**
 * The longest duration or wait that counts: 100 days. A longer one was not measured: a program that sets no
 * time sends 1970 or the year 1. A million of these a minute still add up to a safe integer.
 */
const MAX_MS = 8_640_000_000

interface Minute extends Traffic {
  minute: number
}

interface Note {
  queue: string
  minute: number
  kind: 'completed' | 'timed' | 'failed' | 'waited'
  /** The duration (`timed`) or the wait (`waited`). */
  ms: number
}

/**
 * The last hour of each queue, in sixty minutes. A job costs two notes in memory; a group costs one upsert
 * per queue and minute, because it stores the minute's new totals.
 */
export class TrafficMinutes extends NotedState<Note> implements QueueTraffic {
  readonly #statements: Statements
  /** As committed, by queue. The index of a minute is its number modulo 60. */
  readonly #kept = new Map<string, (Minute | undefined)[]>()
  /** The minutes that the group changes, as they are after it. */
  #changed = new Map<string, Minute[]>()
  #prunedFor = 0

  constructor(statements: Statements) {
    super()
    this.#statements = statements
    for (const { queue, ...minute } of statements.minutes.all()) {
      this.#keepMinute(queue, minute)
    }
  }

  lastHour(queue: string, now: number): Traffic {
    const total = { ...NONE }
    const current = minuteOf(now)
    for (const minute of this.#kept.get(queue) ?? []) {
      if (!minute || minute.minute > current || minute.minute <= current - MINUTES) continue
      total.completed += minute.completed
      total.failed += minute.failed
      total.timed += minute.timed
      total.durationMs += minute.durationMs
      total.waited += minute.waited
      total.waitMs += minute.waitMs
    }
    return total
  }

  /** The minute in which something happened in the queue last, as ms; 0: nothing is known. */
  lastAt(queue: string): number {
    let last = 0
    for (const minute of this.#kept.get(queue) ?? []) last = Math.max(last, minute?.minute ?? 0)
    return last * MINUTE_MS
  }

  /** Drops the minutes of a forgotten queue from memory; those in the file are pruned by their time. */
  forget(queue: string): void {
    this.#kept.delete(queue)
  }

  /**
   * Inside a write, at a start: forgets minutes after `now` (the clock was set back). They would keep their
   * places among the sixty from the current minutes, so that nothing would be counted until their time.
   */
  forgetAfter(now: number): void {
    const current = minuteOf(now)
    this.#statements.forgetMinutesAfter.run(current)
    for (const minutes of this.#kept.values()) {
      for (const [place, minute] of minutes.entries()) {
        if (minute && minute.minute > current) minutes[place] = undefined
      }
    }
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

  /** Inside a write: an attempt begins after `waitMs` in the queue. */
  waited(queue: string, at: number, waitMs: number): void {
    if (waitMs <= MAX_MS) this.#note(queue, at, 'waited', waitMs)
  }

  /** `ms` may be negative: an attempt that began before the clock was set back began later than `at`. */
  #note(queue: string, at: number, kind: Note['kind'], ms: number): void {
    this.notes.add({ queue, minute: minuteOf(at), kind, ms: Math.max(0, ms) })
  }

  override store(): void {
    for (const note of this.notes.all) add(this.#changing(note), note)
    for (const [queue, minutes] of this.#changed) {
      for (const minute of minutes) this.#store(queue, minute)
    }
  }

  protected override apply(): void {
    for (const [queue, minutes] of this.#changed) {
      for (const minute of minutes) this.#keepMinute(queue, minute)
    }
  }

  override discard(): void {
    super.discard()
    if (this.#changed.size > 0) this.#changed = new Map()
  }

  #changing({ queue, minute }: Note): Minute {
    const minutes = this.#changed.get(queue) ?? []
    const known = minutes.find((other) => other.minute === minute)
    if (known) return known
    const kept = this.#kept.get(queue)?.[minute % MINUTES]
    const changing = { ...(kept?.minute === minute ? kept : NONE), minute }
    minutes.push(changing)
    this.#changed.set(queue, minutes)
    return changing
  }

  #store(queue: string, traffic: Minute): void {
    const { minute, completed, failed, timed, durationMs, waited, waitMs } = traffic
    const { keepMinute, pruneMinutes } = this.#statements
    keepMinute.run(minute, queue, completed, failed, timed, durationMs, waited, waitMs)
    if (minute <= this.#prunedFor) return
    this.#prunedFor = minute
    pruneMinutes.run(minute - MINUTES)
  }

  #keepMinute(queue: string, minute: Minute): void {
    let minutes = this.#kept.get(queue)
    if (!minutes) {
      minutes = []
      this.#kept.set(queue, minutes)
    }
    const place = minute.minute % MINUTES
    // A native worker may report a start of an hour ago or more: do not replace a newer minute.
    if ((minutes[place]?.minute ?? 0) <= minute.minute) minutes[place] = minute
  }
}

const NONE: Readonly<Traffic> = {
  completed: 0,
  failed: 0,
  timed: 0,
  durationMs: 0,
  waited: 0,
  waitMs: 0,
}

function minuteOf(ms: number): number {
  return Math.floor(ms / MINUTE_MS)
}

function add(minute: Minute, { kind, ms }: Note): void {
  switch (kind) {
    case 'timed':
      minute.completed++
      minute.timed++
      minute.durationMs += ms
      return
    case 'completed':
      minute.completed++
      return
    case 'failed':
      minute.failed++
      return
    case 'waited':
      minute.waited++
      minute.waitMs += ms
  }
}
