/** Merges ordered ranges of an index into one ordered list, reading each only as far as it is needed. */
import type { Key } from '../../lists/order.ts'

/** The next keys of a range behind a place, at most `limit`. */
export type ReadRange = (after: Key, limit: number) => Key[]

const FIRST_PART = 4
const LARGEST_PART = 512

/** Key `a` comes before key `b` in the list. */
type IsBefore = (a: Key, b: Key) => boolean

/** One range, with the part of it that was read. */
interface Run {
  read: ReadRange
  part: Key[]
  /** Index of the first key of `part` that was not taken. */
  next: number
  partSize: number
  isRead: boolean
}

/** The ranges of a list. A range has each row once; a row may move to another range while the list is read. */
export class Merge {
  readonly #isBefore: IsBefore
  readonly #start: Key
  /** In reverse order of their first keys, so that the list's next key is the last run's. */
  readonly #runs: Run[] = []

  /** `start`: the place behind which the list begins. */
  constructor(start: Key, isBefore: IsBefore) {
    this.#start = start
    this.#isBefore = isBefore
  }

  add(read: ReadRange): void {
    this.#enter({ read, part: [], next: 0, partSize: FIRST_PART, isRead: false })
  }

  /** Null: the list is at its end. */
  next(): Key | null {
    const run = this.#runs.pop()
    const key = run?.part[run.next]
    if (run === undefined || key === undefined) return null
    run.next += 1
    this.#enter(run)
    return key
  }

  /** Puts a run in its place, and reads its next part if there is nothing left of the last. */
  #enter(run: Run): void {
    const key = run.part[run.next] ?? readOn(run, this.#start)
    if (key === undefined) return
    let low = 0
    let high = this.#runs.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#isBehind(middle, key)) low = middle + 1
      else high = middle
    }
    this.#runs.splice(low, 0, run)
  }

  /** Whether the first key of the run at `place` comes after `key`. */
  #isBehind(place: number, key: Key): boolean {
    const run = this.#runs[place]
    const own = run?.part[run.next]
    return own !== undefined && this.#isBefore(key, own)
  }
}

function readOn(run: Run, start: Key): Key | undefined {
  if (run.isRead) return undefined
  run.part = run.read(run.part.at(-1) ?? start, run.partSize)
  run.isRead = run.part.length < run.partSize
  run.partSize = Math.min(2 * run.partSize, LARGEST_PART)
  run.next = 0
  return run.part[0]
}
