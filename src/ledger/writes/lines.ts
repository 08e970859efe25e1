/** Concurrency keys: who is held back, and who is next. Only jobs with a key come here. */
import type { Concurrency } from '../../job/concurrency.ts'
import type { JobRow } from '../../job/job.ts'

/** Queues of one key that a write looks at beside its own; `review` sees to the others. */
export const MAX_LINES = 100
/** Jobs that a write lets go: a line whose first job has a higher limit than those before it may have many. */
const MAX_RELEASED = 100
/** Jobs of a line that are on their way at once, however high their limit: each write would count more of them. */
const MAX_ON_THEIR_WAY = 256

/** A waiting line: the jobs of one key that are held back in one queue. */
export interface Line {
  key: string
  queue: string
}

/** A job that is held back, with its own limit. */
export interface Waiting {
  id: string
  limit: number
}

/** The lines of keys, as the write has left them. */
export interface KeyLines {
  /** How many jobs of the key run. */
  active(key: string): number
  countActive(key: string, change: 1 | -1): void
  /** Of the held jobs: the highest priority first, then who became available first, then who arrived first. */
  first(line: Line): Waiting | null
  /** Are more than `skipped` jobs of the line on their way, with a message or owing one? */
  isOnItsWay(line: Line, skipped: number): boolean
  /** This queue, then others in which jobs of the key are held back. */
  queues(line: Line): Iterable<string>
  /** The job is `available` and owes its message, or has none: it stands in its line from now on. */
  holdBack(id: string): JobRow
  /** The job owes its message from now on. `room`: how many of its line may go, at most. */
  letGo(line: Line, id: string, room: number): JobRow
  /** For the listener: a job that the write does not return owes its message. */
  released(job: JobRow): void
  /** For the listener: a job of the queue is held back. */
  held(queue: string): void
}

/** May an attempt of this waiting job begin, by its own limit? */
export function mayBegin(lines: KeyLines, { key, limit }: Concurrency): boolean {
  return lines.active(key) < limit
}

/** An attempt of the job begins; it did not run before. In the write that starts it. */
export function begun(lines: KeyLines, { key, limit }: Concurrency, queue: string): void {
  lines.countActive(key, 1)
  // Its line may have been waiting for this one to leave the way.
  if (limit > MAX_ON_THEIR_WAY) freed(lines, { key, queue }, false)
}

/** A job does not run or wait for its turn any more; `wasActive`: it ran. In the write that says so. */
export function freed(lines: KeyLines, line: Line, wasActive: boolean): void {
  if (wasActive) lines.countActive(line.key, -1)
  for (const job of letGo(lines, line)) lines.released(job)
}

/**
 * The job was active and is `available` again. If it owes a message, it waits for its turn first. Returns the row as
 * it is then.
 */
export function wentBack(lines: KeyLines, line: Line, job: JobRow): JobRow {
  if (job.outbox === null) {
    freed(lines, line, true)
    return job
  }
  lines.countActive(line.key, -1)
  return inTurn(lines, line, job)
}

/**
 * The job has become `available`, and owes its message (`outbox`): it stands in its line, and all whose turn it is
 * are let go. Returns the row as it is then: it owes its message, or is held back.
 */
export function inTurn(lines: KeyLines, line: Line, job: JobRow): JobRow {
  if (job.outbox === null) return job
  const held = lines.holdBack(job.id)
  let own: JobRow | null = null
  for (const released of letGo(lines, line)) {
    if (released.id === job.id) own = released
    else lines.released(released)
  }
  if (own === null) lines.held(line.queue)
  return own ?? held
}

/** Lets go whose turn it is, in every queue of the key, this one first. */
function letGo(lines: KeyLines, { key, queue: own }: Line): JobRow[] {
  const active = lines.active(key)
  const released: JobRow[] = []
  for (const queue of lines.queues({ key, queue: own })) {
    while (released.length < MAX_RELEASED) {
      const next = nextOf(lines, { key, queue }, active)
      if (next === null) break
      released.push(next)
    }
  }
  return released
}

/** Lets the first of a line go, unless enough of them are on their way already for the room that is left. */
function nextOf(lines: KeyLines, line: Line, active: number): JobRow | null {
  const first = lines.first(line)
  if (first === null) return null
  const most = Math.min(first.limit - active, MAX_ON_THEIR_WAY)
  if (most <= 0 || lines.isOnItsWay(line, most - 1)) return null
  return lines.letGo(line, first.id, most)
}
