/** What the writes of a group have changed so far; the present write's part can be taken back. */
import type { JobRow } from '../../../job/job.ts'
import type { KeptRow, Texts } from '../../../job/transitions/row.ts'
import type { TrafficNote } from '../../writes/traffic.ts'
import type { Statement } from '../connection.ts'
import type { Counted, Tombstone } from './memory.ts'
import type { AnySide } from './side.ts'

/** A job of this queue is held back; or this one owes its message. */
export type KeyNote = { held: string } | { released: JobRow }

/** How the rows of one kind are stored; never with no rows. */
interface Gathering<T> {
  statements(schema: string, rows: readonly T[]): Statement[]
}

export class Changes {
  /** Null: deleted. */
  readonly rows = new Map<string, KeptRow | null>()
  readonly texts = new Map<string, Texts>()
  /** Ids of changed rows that have a unique key, or had it for a while, by their keys. */
  readonly keyed = new Map<string, Set<string>>()
  /** Ids of changed rows whose jobs a cron entry has made, by its `seq`. */
  readonly #ofEntries = new Map<number, Set<string>>()
  /** Ids of changed rows that have a concurrency key, or had it, by their keys. */
  readonly #ofKeys = new Map<string, Set<string>>()
  /** For the listener of concurrency keys. */
  readonly keyNews: KeyNote[] = []
  /** Rows of jobs of cron entries that go, as they were. */
  readonly endedRuns: KeptRow[] = []
  readonly counts = new Map<string, Map<Counted, number>>()
  /** Queues whose counts go if they are 0 after the group. */
  readonly uncounted = new Set<string>()
  /** Null: removed. */
  readonly tombstones = new Map<string, Tombstone | null>()
  /** Rows of other tables, by their keys; null: deleted. */
  readonly sides = new Map<AnySide, Map<string, object | null>>()
  /** Marks of queues with stale copies; null: they are swept. */
  readonly stale = new Map<string, number | null>()
  readonly traffic: TrafficNote[] = []
  readonly gathered = new Map<Gathering<unknown>, unknown[]>()
  /** Whatever else is to be stored, and what follows from its commit. */
  readonly others: { statement: Statement | null; effect: () => void }[] = []
  /** Of maps of the memory: what differs after the commit. Undefined: the key is not in it any more. */
  readonly #differing = new Map<object, Map<unknown, unknown>>()
  #undo: (() => void)[] = []

  /** The present write is done: its changes stay. */
  keep(): void {
    this.#undo = []
  }

  /** Takes back what the present write has changed. */
  undo(): void {
    for (const back of this.#undo.reverse()) back()
    this.#undo = []
  }

  /** `texts` null: they stay as they are. */
  put(id: string, row: KeptRow | null, texts: Texts | null): void {
    this.#set(this.rows, id, row)
    if (texts !== null) this.#set(this.texts, id, texts)
    if (row !== null && row.uniqueKey !== null) note(this.keyed, row.uniqueKey, id)
    if (row !== null && row.concurrencyKey !== null) note(this.#ofKeys, row.concurrencyKey, id)
    if (row !== null && row.cronEntry !== null) note(this.#ofEntries, row.cronEntry, id)
  }

  /** Ids of changed rows that are jobs of this cron entry, or were. */
  jobsOf(entry: number): string[] {
    return [...(this.#ofEntries.get(entry) ?? [])]
  }

  /** Ids of changed rows of jobs with this concurrency key. */
  jobsWith(key: string): string[] {
    return [...(this.#ofKeys.get(key) ?? [])]
  }

  tell(news: KeyNote): void {
    this.keyNews.push(news)
    this.#undo.push(() => this.keyNews.pop())
  }

  /** The row of a job of a cron entry goes. */
  endRun(row: KeptRow): void {
    this.endedRuns.push(row)
    this.#undo.push(() => this.endedRuns.pop())
  }

  count(queue: string, state: Counted, change: number): void {
    const states = this.counts.get(queue) ?? new Map<Counted, number>()
    this.counts.set(queue, states)
    this.#set(states, state, (states.get(state) ?? 0) + change)
  }

  /** What a map of the memory has for this key, as the writes before have left it. */
  valueIn<K, V>(map: ReadonlyMap<K, V>, key: K): V | undefined {
    const differing = this.#differing.get(map)
    return differing?.has(key) ? (differing.get(key) as V | undefined) : map.get(key)
  }

  /** All values of a map of the memory, in no order. */
  valuesIn<K, V>(map: ReadonlyMap<K, V>): V[] {
    const differing = this.#differing.get(map) ?? new Map<K, V | undefined>()
    const kept = [...map].flatMap(([key, value]) => (differing.has(key) ? [] : [value]))
    return [...kept, ...([...differing.values()] as (V | undefined)[]).filter(isThere)]
  }

  /** Changes a map of the memory, from the commit on. `statement`: stores the same; null: another does. */
  setIn<K, V>(map: Map<K, V>, key: K, value: V | undefined, statement: Statement | null): void {
    const differing = this.#differing.get(map) ?? new Map<unknown, unknown>()
    this.#differing.set(map, differing)
    this.#set(differing, key, value)
    this.store(statement, () => {
      if (value === undefined) map.delete(key)
      else map.set(key, value)
    })
  }

  /** The counts of the queue go, unless there are jobs of it when the group ends. */
  uncount(queue: string): void {
    if (this.uncounted.has(queue)) return
    this.uncounted.add(queue)
    this.#undo.push(() => this.uncounted.delete(queue))
  }

  putTombstone(id: string, tombstone: Tombstone | null): void {
    this.#set(this.tombstones, id, tombstone)
  }

  noteTraffic(note: TrafficNote): void {
    this.traffic.push(note)
    this.#undo.push(() => this.traffic.pop())
  }

  /** A row that is stored together with the others of its kind. */
  gather<T>(kind: Gathering<T>, row: T): void {
    const rows = this.gathered.get(kind as Gathering<unknown>) ?? []
    this.gathered.set(kind as Gathering<unknown>, rows)
    rows.push(row)
    this.#undo.push(() => rows.pop())
  }

  markStale(queue: string, mark: number | null): void {
    this.#set(this.stale, queue, mark)
  }

  putSide(table: AnySide, key: string, row: object | null): void {
    const rows = this.sides.get(table) ?? new Map<string, object | null>()
    this.sides.set(table, rows)
    this.#set(rows, key, row)
  }

  /** Stores something that no later write of the group reads. */
  store(statement: Statement | null, effect: () => void = () => {}): void {
    this.others.push({ statement, effect })
    this.#undo.push(() => this.others.pop())
  }

  #set<K, V>(map: Map<K, V>, key: K, value: V): void {
    const had = map.has(key) ? { value: map.get(key) as V } : null
    map.set(key, value)
    this.#undo.push(() => {
      if (had === null) map.delete(key)
      else map.set(key, had.value)
    })
  }
}

function note<K>(map: Map<K, Set<string>>, key: K, id: string): void {
  const ids = map.get(key)
  if (ids) ids.add(id)
  else map.set(key, new Set([id]))
}

function isThere<T>(value: T | undefined): value is T {
  return value !== undefined
}
