/** Which rows may have a unique key: recent keys in memory, older ones in the file. */
import { compare } from '../../../job/values/canonical-json.ts'
import type { CommittedState } from '../commit/committed-state.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'
import { BEGINNING_DIGITS, type KeyedRow } from '../sql/unique-keys.ts'

/** Keys with the same first digits are moved together: 4,096 groups, of 4 keys or a little more. */
const GROUP_DIGITS = 3
/** Inserted jobs, unique or not, after which the keys are moved to the file. */
const JOBS_PER_MOVE = 16_384
/** Keys that a transaction moves for each job that it inserts, and for none. */
const MOVED_PER_INSERTED = 4

const NONE: readonly KeyedRow[] = []

/** The rows to look at for a key, and whether there are `crowded` rows of it, or of one that begins alike. */
export interface Keyed {
  seqs: number[]
  hasCrowd: boolean
}

/**
 * Tells which rows may have a unique key. Each must be looked at: it may have another key, or none any more,
 * or be in a state or of an age that does not count.
 *
 * The rows of new keys are in memory at first, and are moved to `unique_keys` thousands at a time, in the
 * order of the keys: then many of them go to the same page, and pages are what a commit writes. A move takes
 * many transactions, each of which does a part. A new process reads the rows that were not moved from `jobs`.
 * A row that a write adds stays here if the write is undone: it is then one that does not have the key.
 */
export class RecentUniqueKeys implements CommittedState {
  readonly #statements: Statements
  readonly #jobsPerMove: number
  readonly #groups = new Map<string, KeyedRow[]>()
  /** False: no row is `crowded`. */
  #hasCrowded: boolean
  /** Jobs inserted since the last move; and by this transaction. */
  #inserted: number
  #insertedNow = 0
  /** All rows up to this `seq` that should be in `unique_keys` are. */
  #movedTo: number
  /** The groups that the move under way has still to move, in order; empty: none is under way. */
  #toMove: readonly string[] = []
  /** What this transaction does of it: `movedTo` if it ends the move. */
  #part: { groups: readonly string[]; movedTo: number | null } | null = null

  constructor(statements: Statements, jobsPerMove = JOBS_PER_MOVE) {
    this.#statements = statements
    this.#jobsPerMove = jobsPerMove
    this.#hasCrowded = statements.hasCrowded.get() !== undefined
    this.#movedTo = onlyRow(statements.keysMovedTo.get()).seq
    this.#inserted = Math.max(0, onlyRow(statements.lastSeq.get()).seq - this.#movedTo)
    for (const row of statements.keyedAfter.all(this.#movedTo)) this.#add(row)
  }

  /** Usually no row has the key, so that is what costs least. */
  find(key: string): Keyed {
    const { keyed, isCrowded } = this.#statements
    const beginning = key.slice(0, BEGINNING_DIGITS)
    const older = keyed.get(beginning) === undefined ? NONE : keyed.all(beginning)
    const seqs = older.map(({ seq }) => seq)
    // A row that is being moved is in both, and one that has a new job with the same key is there twice.
    for (const { beginning: other, seq } of this.#groups.get(groupOf(beginning)) ?? NONE)
      if (other === beginning && !seqs.includes(seq)) seqs.push(seq)
    return { seqs, hasCrowd: this.#hasCrowded && isCrowded.get(beginning) !== undefined }
  }

  /** Notes that a job was stored in this row. */
  inserted(seq: number, key: string | null, isCrowded: boolean): void {
    this.#insertedNow += 1
    this.#hasCrowded ||= isCrowded
    if (key === null || isCrowded) return
    // An old row that has a new job, or a `seq` of a deleted row that was given out again.
    if (seq <= this.#movedTo) this.#statements.moveKeys.run(JSON.stringify([seq]))
    else this.#add({ beginning: key.slice(0, BEGINNING_DIGITS), seq })
  }

  keep(): void {}

  undo(): void {}

  store(): void {
    if (this.#toMove.length === 0) {
      if (this.#inserted + this.#insertedNow < this.#jobsPerMove) return
      this.#toMove = [...this.#groups.keys()].sort(compare)
    }
    const wanted = MOVED_PER_INSERTED * (this.#insertedNow + 1)
    const groups: string[] = []
    const seqs: number[] = []
    for (const name of this.#toMove) {
      if (seqs.length >= wanted) break
      groups.push(name)
      for (const { seq } of this.#groups.get(name) ?? []) seqs.push(seq)
    }
    if (seqs.length > 0) this.#statements.moveKeys.run(JSON.stringify(seqs))
    const isEnd = groups.length === this.#toMove.length
    const movedTo = isEnd ? this.#lastMoved(new Set(groups)) : null
    if (movedTo !== null) this.#statements.setKeysMovedTo.run(movedTo)
    this.#part = { groups, movedTo }
  }

  commit(): void {
    this.#inserted += this.#insertedNow
    this.#insertedNow = 0
    if (this.#part === null) return
    const { groups, movedTo } = this.#part
    for (const name of groups) this.#groups.delete(name)
    this.#toMove = this.#toMove.slice(groups.length)
    if (movedTo !== null) {
      this.#movedTo = movedTo
      this.#inserted = 0
    }
    this.#part = null
  }

  discard(): void {
    this.#insertedNow = 0
    this.#part = null
  }

  #add(row: KeyedRow): void {
    const name = groupOf(row.beginning)
    const group = this.#groups.get(name)
    if (group) group.push(row)
    else this.#groups.set(name, [row])
  }

  /** The `seq` before the first row of the groups that are not moved. */
  #lastMoved(moved: ReadonlySet<string>): number {
    let last = onlyRow(this.#statements.lastSeq.get()).seq
    for (const [name, group] of this.#groups)
      if (!moved.has(name)) for (const { seq } of group) last = Math.min(last, seq - 1)
    return last
  }
}

function groupOf(beginning: string): string {
  return beginning.slice(0, GROUP_DIGITS)
}
