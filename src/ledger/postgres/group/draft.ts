/** What the writes of a group work with: the rows that were loaded, as the writes before have left them. */
import { isWaitingWithNative } from '../../../job/arrival.ts'
import { isHeldByKey } from '../../../job/concurrency.ts'
import { isErased, type JobRow, standingOf } from '../../../job/job.ts'
import { keepsCheckpoint } from '../../../job/progress.ts'
import type { Stale } from '../../../job/stale.ts'
import type { Change, KeptRow, Texts } from '../../../job/transitions/row.ts'
import type { WorkflowNews } from '../../ended.ts'
import type { KeptKey } from '../../writes/kept-keys.ts'
import { TrafficNotes } from '../../writes/traffic.ts'
import type { Row, Statement } from '../connection.ts'
import { Changes } from './changes.ts'
import { toJobRow } from './columns.ts'
import { endsRun } from './cron.ts'
import { inLine } from './lines.ts'
import { type Counted, type Counts, type Memory, noCounts, type Tombstone } from './memory.ts'
import { CHECKPOINTS, PROGRESS } from './notes.ts'
import type { AnySide, SideRows, SideTable, SideWant } from './side.ts'
import { type Holder, type HolderQuery, type Holders, holdersKey, isHolder } from './unique-keys.ts'

/** What has been read so far in the transaction. Null: there is no such row. */
export interface Loaded {
  readonly rows: ReadonlyMap<string, KeptRow | null>
  readonly texts: ReadonlyMap<string, Texts>
  /** The ids of the rows that owed these. */
  readonly nonces: ReadonlyMap<number, string | null>
  readonly tombstones: ReadonlyMap<string, Tombstone | null>
  readonly sides: SideRows
  /** By `holdersKey`. */
  readonly holders: ReadonlyMap<string, Holders>
  /** By their unique keys. */
  readonly keptKeys: ReadonlyMap<string, readonly KeptKey[]>
  /** Of other statements, by `keyOf`. */
  readonly answers: ReadonlyMap<string, readonly Row[]>
}

/** What a write reads. */
export interface Wants {
  /** With their texts. */
  ids?: readonly string[]
  /** Without their texts. */
  short?: readonly string[]
  nonces?: readonly number[]
  tombstones?: readonly string[]
  sides?: readonly SideWant[]
  holders?: readonly HolderQuery[]
  keptKeys?: readonly string[]
  asked?: readonly Statement[]
}

/** Thrown by a draft to have more loaded; then all writes of the group run again. */
export class Missing extends Error {
  override readonly name = 'Missing'
  readonly wants: readonly Wants[]

  constructor(...wants: readonly Wants[]) {
    super('not loaded yet')
    this.wants = wants
  }
}

const TEXTS: readonly string[] = ['carry', 'error', 'errors', 'result', 'envelope']

/** Advances the workflow of a step whose job has ended. Returns the news. */
export type EndStep = (draft: Draft, job: JobRow) => readonly WorkflowNews[] | undefined

/** What a group has beside the rows. */
export interface Circumstances {
  schema: string
  /** When it is; the same however often its writes run. */
  wall: number
  /** A parameter, because it calls back into what ends jobs. */
  endStep: EndStep
}

/**
 * A step that begins may replace a job of another workflow (`unique`); that job's end may begin another step,
 * and so on. Some hundreds of these nested calls overflow the stack, and the write would fail each time.
 */
const MAX_NESTED = 100

export class Draft {
  readonly memory: Memory
  /** Of the ledger, quoted. */
  readonly schema: string
  readonly changes = new Changes()
  readonly #loaded: Loaded
  /** What happens in queues. */
  readonly traffic = new TrafficNotes((note) => this.changes.noteTraffic(note))
  readonly wall: number
  readonly #endStep: EndStep
  #nested = 0
  #nonce: number

  constructor(loaded: Loaded, memory: Memory, { schema, wall, endStep }: Circumstances) {
    this.#loaded = loaded
    this.memory = memory
    this.schema = schema
    this.wall = wall
    this.#endStep = endStep
    this.#nonce = memory.nonce
  }

  /** The last nonce that was given out. */
  get nonce(): number {
    return this.#nonce
  }

  nextNonce(): number {
    return ++this.#nonce
  }

  /** The row as it is now. Null: there is none. */
  row(id: string): KeptRow | null {
    const changed = this.changes.rows.get(id)
    const row = changed === undefined ? this.#loaded.rows.get(id) : changed
    if (row === undefined) throw new Missing({ short: [id] })
    return row
  }

  /** The same for many, which are loaded together. */
  rows(ids: readonly string[]): KeptRow[] {
    const short = ids.filter((id) => !this.changes.rows.has(id) && !this.#loaded.rows.has(id))
    if (short.length > 0) throw new Missing({ short })
    return ids.flatMap((id) => this.row(id) ?? [])
  }

  /** Rows with their texts, which are loaded together. */
  jobs(rows: readonly KeptRow[]): JobRow[] {
    const ids = rows.map(({ id }) => id).filter((id) => this.#textsIfLoaded(id) === undefined)
    if (ids.length > 0) throw new Missing({ ids })
    return rows.map((row) => this.job(row))
  }

  job(row: KeptRow): JobRow {
    return toJobRow(row, this.#textsOf(row.id))
  }

  /**
   * Runs a write of many parts, each of which it passes to `part`. The parts after one that lacks something run all
   * the same, so that what they lack is loaded with it: a write costs as many loads as its deepest part. `part`
   * returns undefined for a part that lacks something; what `write` returns then is seen by nobody, since it runs again.
   */
  inParts<R>(write: (part: <T>(run: () => T) => T | undefined) => R): R {
    const missing: Wants[] = []
    const lacks = (error: unknown): error is Missing =>
      error instanceof Missing && missing.push(...error.wants) > 0
    const part = <T>(run: () => T): T | undefined => {
      try {
        return run()
      } catch (error) {
        if (!lacks(error)) throw error
        this.changes.undo()
        return undefined
      }
    }
    let done: R | undefined
    try {
      done = write(part)
    } catch (error) {
      // It may be about what a part did not return.
      if (!lacks(error) && missing.length === 0) throw error
    }
    if (missing.length > 0) throw new Missing(...missing)
    return done as R
  }

  /** The same for each of these. */
  each<T, R>(items: readonly T[], run: (item: T) => R): R[] {
    return this.inParts((part) => items.map((item) => part(() => run(item)) as R))
  }

  /** The row that owes this. */
  owing(nonce: number): KeptRow | null {
    const id = this.#loaded.nonces.get(nonce)
    if (id === undefined) throw new Missing({ nonces: [nonce] })
    const row = id === null ? null : this.row(id)
    return row?.outbox === nonce ? row : null
  }

  /** Tombstones of all of these are about to be asked for. */
  lookUp(ids: readonly string[]): void {
    if (this.#hasNoTombstones()) return
    const known = (id: string) => this.changes.tombstones.has(id) || this.#loaded.tombstones.has(id)
    const tombstones = ids.filter((id) => !known(id))
    if (tombstones.length > 0) throw new Missing({ tombstones })
  }

  tombstone(id: string): Tombstone | null {
    if (this.#hasNoTombstones()) return null
    const changed = this.changes.tombstones.get(id)
    const found = changed === undefined ? this.#loaded.tombstones.get(id) : changed
    if (found === undefined) throw new Missing({ tombstones: [id] })
    return found
  }

  /** Messages of this id are dropped that come from `queue`; null: from whatever queue. */
  isTombstoned(id: string, queue: string | null): boolean {
    const found = this.tombstone(id)
    return found !== null && !(found.isScoped && queue !== null && queue !== found.queue)
  }

  /**
   * A job of `queue` is stored under the id. True: its tombstone stays, for the messages of this queue that came
   * before. One of another queue goes: it must not count for this job.
   */
  hasLastingTombstone(id: string, queue: string): boolean {
    const counts = this.isTombstoned(id, queue)
    if (!counts && this.tombstone(id) !== null) this.#entomb(id, null)
    return counts
  }

  /** False, and nothing is recorded, if the id has a tombstone of another queue, which must not go for it. */
  recordTombstone(id: string, tombstone: Tombstone): boolean {
    const { isScoped, queue } = tombstone
    const present = isScoped ? this.tombstone(id) : null
    if (present !== null && present.queue !== queue) return false
    this.#entomb(id, tombstone)
    return true
  }

  /** The row of a side table as it is now. Null: there is none. */
  side<T extends object>(table: SideTable<T>, key: string): T | null {
    const any = table as unknown as AnySide
    const changed = this.changes.sides.get(any)
    if (changed === undefined && !this.memory.usedSides.has(any.name)) return null
    const own = changed?.get(key)
    const row = own === undefined ? this.#loaded.sides.get(any)?.get(key) : own
    if (row === undefined) throw new Missing({ sides: [{ table: any, keys: [key] }] })
    return row as T | null
  }

  /** Null: deletes it, whether it is there or not. */
  putSide<T extends object>(table: SideTable<T>, key: string, row: T | null): void {
    const any = table as unknown as AnySide
    const { usedSides } = this.memory
    const isUsed = usedSides.has(any.name)
    if (row === null && !isUsed && !this.changes.sides.has(any)) return
    this.changes.putSide(any, key, row)
    if (!isUsed) this.changes.store(null, () => usedSides.add(any.name))
  }

  /** All of this is about to be asked for. */
  require({ ids = [], holders = [], keptKeys = [], sides = [], asked = [] }: Wants): void {
    const missing = {
      sides: sides
        .map(({ table, keys }) => ({
          table,
          keys: keys.filter((key) => !this.#hasSide(table, key)),
        }))
        .filter(({ keys }) => keys.length > 0),
      ids: ids.filter((id) => this.#textsIfLoaded(id) === undefined && !this.#isGone(id)),
      holders: holders.filter((query) => !this.#hasHolders(query)),
      keptKeys: keptKeys.filter((key) => !this.#loaded.keptKeys.has(key)),
      asked: asked.filter((one) => !this.#loaded.answers.has(keyOf(one))),
    }
    if (Object.values(missing).some((wanted) => wanted.length > 0)) throw new Missing(missing)
  }

  /** The holders of a unique key, as the writes before have left them; at most `query.limit`. */
  holders(query: HolderQuery): Holder[] {
    const own = [...(this.changes.keyed.get(query.key) ?? [])]
      .flatMap((id) => this.changes.rows.get(id) ?? [])
      .filter((row) => isHolder(row, query))
    const found = own.slice(0, query.limit).map((row) => this.#holderOf(row))
    if (found.length === query.limit) return found
    const { limit, found: loaded } = this.#holdersOf(query)
    const unchanged = loaded.filter(({ id }) => !this.changes.rows.has(id))
    const all = [...found, ...unchanged].slice(0, query.limit)
    if (all.length === query.limit || loaded.length < limit) return all
    // As many as were read have been changed since: there may be more behind them.
    throw new Missing({ holders: [{ ...query, limit: limit + query.limit }] })
  }

  /** The unique keys that were kept of deleted jobs. No write but a group of its own changes them. */
  keptKeys(key: string): readonly KeptKey[] {
    if (this.memory.keptKeys === 0) return []
    this.require({ keptKeys: [key] })
    return this.#loaded.keptKeys.get(key) ?? []
  }

  /** What a SELECT found before the group: for writes that are a group of their own. */
  ask(statement: Statement): readonly Row[] {
    const answer = this.#loaded.answers.get(keyOf(statement))
    if (answer === undefined) throw new Missing({ asked: [statement] })
    return answer
  }

  /** Runs a statement that changes rows, and returns how many: for the same writes. */
  execute(text: string, values: readonly unknown[]): number {
    const counted = `WITH done AS (${text} RETURNING 1) SELECT count(*) AS n FROM done`
    return Number(this.ask({ text: counted, values })[0]?.['n'])
  }

  /** What a write says whose fence does not match. */
  stale(id: string): Stale {
    const row = this.row(id)
    return { outcome: 'stale', row: row && standingOf(row) }
  }

  /** Advances the workflow of a job that has just ended, if it is a step. Returns the news. */
  ended(row: KeptRow, job: JobRow): readonly WorkflowNews[] | undefined {
    if (row.step === null) return undefined
    this.#nested += 1
    try {
      return this.#endStep(this, job)
    } finally {
      this.#nested -= 1
    }
  }

  /** May a step that begins replace other jobs? False when too many ends are nested. */
  get mayReplace(): boolean {
    return this.#nested < MAX_NESTED
  }

  /** The result of a job that this group has changed; undefined: as it is stored. */
  changedResult(id: string): string | null | undefined {
    const row = this.changes.rows.get(id)
    if (row === undefined) return undefined
    if (row === null) return null
    return this.changes.texts.get(id)?.result
  }

  /** Returns the row as it is then: its concurrency key may hold it back. */
  insert(row: KeptRow, texts: Texts): KeptRow {
    this.changes.put(row.id, row, texts)
    this.#count(row, 1)
    return row.concurrencyKey === null ? row : inLine(this, null, row)
  }

  /** Returns the row after the change, and after what follows from it for the jobs of its concurrency key. */
  change(row: KeptRow, change: Change): KeptRow {
    const after = this.put(row, change)
    return after.concurrencyKey === null ? after : inLine(this, row, after)
  }

  /** Returns the row after the change, from which nothing follows. */
  put(row: KeptRow, change: Change): KeptRow {
    const { own, texts } = parted(change)
    const after: KeptRow = { ...row, ...own }
    this.changes.put(row.id, after, texts && this.#changed(row.id, texts))
    if (endsRun(row, after)) this.changes.endRun(row)
    this.#count(row, -1)
    this.#count(after, 1)
    if (after.endedAt !== null) this.#forgetNotes(after)
    return after
  }

  remove(row: KeptRow): void {
    this.changes.put(row.id, null, null)
    if (endsRun(row, null)) this.changes.endRun(row)
    this.#count(row, -1)
    this.putSide(CHECKPOINTS, row.id, null)
    this.putSide(PROGRESS, row.id, null)
  }

  /** No effect when it is known. */
  recordQueue(name: string, createdAt: number): void {
    const { queues } = this.memory
    if (this.changes.valueIn(queues, name) !== undefined) return
    const text = `INSERT INTO ${this.schema}.queues (name, created_at) VALUES ($1, $2)
      ON CONFLICT DO NOTHING`
    const statement = { text, values: [name, createdAt] }
    this.changes.setIn(queues, name, { name, createdAt }, statement)
  }

  /** The counts of the queue as they are now. */
  countsOf(queue: string): Counts {
    const counts = { ...(this.memory.counts.get(queue) ?? noCounts()) }
    for (const [state, change] of this.changes.counts.get(queue) ?? []) counts[state] += change
    return counts
  }

  /** One more copy in this queue's DLX queue is stale. */
  staleCopy(queue: string): void {
    this.changes.markStale(queue, ++this.memory.lastMark)
  }

  /** A sweep that began when `mark` was the newest has removed all stale copies. */
  swept(queue: string, mark: number): void {
    const changed = this.changes.stale.get(queue)
    const present = changed === undefined ? this.memory.stale.get(queue) : changed
    if (present === mark) this.changes.markStale(queue, null)
  }

  isNew(id: string): boolean {
    return this.before(id) === null
  }

  /** The row as it is stored. */
  before(id: string): KeptRow | null {
    return this.#loaded.rows.get(id) ?? null
  }

  /** Of a job that has ended. */
  #forgetNotes(row: KeptRow): void {
    const isGone = isErased(row.state)
    if (isGone || !keepsCheckpoint(row)) this.putSide(CHECKPOINTS, row.id, null)
    if (isGone) this.putSide(PROGRESS, row.id, null)
  }

  #hasSide(table: AnySide, key: string): boolean {
    const changed = this.changes.sides.get(table)
    if (changed === undefined && !this.memory.usedSides.has(table.name)) return true
    const loaded = this.#loaded.sides.get(table)
    return changed?.has(key) === true || loaded?.has(key) === true
  }

  #isGone(id: string): boolean {
    return this.#loaded.rows.get(id) === null
  }

  #hasHolders(query: HolderQuery): boolean {
    return (this.#loaded.holders.get(holdersKey(query))?.limit ?? 0) >= query.limit
  }

  #holdersOf(query: HolderQuery): Holders {
    const loaded = this.#loaded.holders.get(holdersKey(query))
    if (loaded === undefined || loaded.limit < query.limit) throw new Missing({ holders: [query] })
    return loaded
  }

  #holderOf({ id }: KeptRow): Holder {
    const { envelope, errors } = this.#textsOf(id)
    return { id, bytes: Buffer.byteLength(envelope) + Buffer.byteLength(errors ?? '') }
  }

  #hasNoTombstones(): boolean {
    return this.memory.tombstones === 0 && this.changes.tombstones.size === 0
  }

  #entomb(id: string, tombstone: Tombstone | null): void {
    const change = (tombstone === null ? 0 : 1) - (this.tombstone(id) === null ? 0 : 1)
    this.changes.putTombstone(id, tombstone)
    this.changes.store(null, () => {
      this.memory.tombstones += change
    })
  }

  #textsIfLoaded(id: string): Texts | undefined {
    return this.changes.texts.get(id) ?? this.#loaded.texts.get(id)
  }

  #textsOf(id: string): Texts {
    const texts = this.#textsIfLoaded(id)
    if (texts === undefined) throw new Missing({ ids: [id] })
    return texts
  }

  /** All of them at once, as an erased row has it, need not be loaded before. */
  #changed(id: string, texts: Partial<Texts>): Texts {
    const { carry, error, errors, result, envelope } = texts
    const isWhole = [carry, error, errors, result].every((text) => text !== undefined)
    if (!isWhole || envelope === undefined) return { ...this.#textsOf(id), ...texts }
    return { ...(texts as Texts) }
  }

  #count(row: KeptRow, change: number): void {
    for (const state of countsOf(row)) this.changes.count(row.queue, state, change)
  }
}

/** What tells two statements apart. */
export function keyOf({ text, values }: Statement): string {
  return JSON.stringify([text, values])
}

/** The counts that the row is in. */
function countsOf(row: KeptRow): Counted[] {
  if (isErased(row.state)) return []
  const counts: Counted[] = [row.state]
  if (row.isDeadLetter) counts.push('dead_letter')
  if (isWaitingWithNative(row)) counts.push('with_native')
  else if (isHeldByKey(row)) counts.push('held')
  return counts
}

function parted(change: Change): { own: Partial<KeptRow>; texts: Partial<Texts> | null } {
  const entries = Object.entries(change)
  const texts = entries.filter(([name]) => TEXTS.includes(name))
  if (texts.length === 0) return { own: change, texts: null }
  const own = entries.filter(([name]) => !TEXTS.includes(name))
  return { own: Object.fromEntries(own), texts: Object.fromEntries(texts) }
}
