/** What the writes of a group have changed so far; the present write's part can be taken back. */
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import type { KeptRow, Texts } from '../../../job/transitions/row.ts'
import type { QueueRecord, RetryQueue } from '../../known.ts'
import type { Statement } from '../connection.ts'
import type { Counted, Tombstone } from './memory.ts'
import type { AnySide } from './side.ts'

export class Changes {
  /** Null: deleted. */
  readonly rows = new Map<string, KeptRow | null>()
  readonly texts = new Map<string, Texts>()
  /** Ids of changed rows that have a unique key, or had it for a while, by their keys. */
  readonly keyed = new Map<string, Set<string>>()
  /** Ids of changed rows whose jobs a cron entry has made, by its `seq`. */
  readonly #ofEntries = new Map<number, Set<string>>()
  /** Rows of such jobs that go, as they were. */
  readonly endedRuns: KeptRow[] = []
  readonly counts = new Map<string, Map<Counted, number>>()
  /** Queues that are recorded, in their order. */
  readonly queues = new Map<string, QueueRecord>()
  /** By `retryQueueKey`. */
  readonly retryQueues = new Map<string, RetryQueue>()
  /** Null: removed. */
  readonly tombstones = new Map<string, Tombstone | null>()
  /** Rows of other tables, by their keys; null: deleted. */
  readonly sides = new Map<AnySide, Map<string, object | null>>()
  /** Marks of queues with stale copies; null: they are swept. */
  readonly stale = new Map<string, number | null>()
  /** Whatever else is to be stored, and what follows from its commit. */
  readonly others: { statement: Statement | null; effect: () => void }[] = []
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
    if (row !== null && row.cronEntry !== null) note(this.#ofEntries, row.cronEntry, id)
  }

  /** Ids of changed rows that are jobs of this cron entry, or were. */
  jobsOf(entry: number): string[] {
    return [...(this.#ofEntries.get(entry) ?? [])]
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

  recordQueue(record: QueueRecord): void {
    if (!this.queues.has(record.name)) this.#set(this.queues, record.name, record)
  }

  recordRetryQueue(retryQueue: RetryQueue): void {
    const key = retryQueueKey(retryQueue.queue, retryQueue.delayMs)
    this.#set(this.retryQueues, key, retryQueue)
  }

  putTombstone(id: string, tombstone: Tombstone | null): void {
    this.#set(this.tombstones, id, tombstone)
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
