/** Names that are seldom removed, in memory as committed: queues, retry queues. */
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import type { QueueRecord, RetryQueue } from '../../known.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'

interface Table<T> {
  records: readonly T[]
  keyOf(record: T): string
  /** Changes no row if the record exists already. */
  insert(record: T): { changes: number }
  remove(record: T): void
}

interface Change<T> {
  record: T
  isRemoved: boolean
}

/** A table of names that are seldom removed, kept in memory as committed. */
export class AppendOnlyTable<T> extends NotedState<Change<T>> {
  readonly #table: Table<T>
  #records: readonly T[]
  readonly #keys: Set<string>

  constructor(table: Table<T>) {
    super()
    this.#table = table
    this.#records = table.records
    this.#keys = new Set(table.records.map((record) => table.keyOf(record)))
  }

  /** As committed. */
  all(): readonly T[] {
    return this.#records
  }

  /** Inside a write: as the earlier writes of the group have left it. */
  allNow(): readonly T[] {
    return this.#after(this.notes.all)
  }

  /** As committed. */
  has(key: string): boolean {
    return this.#keys.has(key)
  }

  /** Inside a write: as `record` would find it. */
  hasNow(key: string): boolean {
    if (this.notes.isEmpty) return this.#keys.has(key)
    const last = this.notes.all.findLast(({ record }) => this.#table.keyOf(record) === key)
    return last === undefined ? this.#keys.has(key) : !last.isRemoved
  }

  /** Inside a write: stores the record unless it is known. */
  record(record: T): void {
    if (this.hasNow(this.#table.keyOf(record))) return
    if (this.#table.insert(record).changes === 1) this.notes.add({ record, isRemoved: false })
  }

  /** Inside a write. */
  remove(record: T): void {
    this.#table.remove(record)
    this.notes.add({ record, isRemoved: true })
  }

  protected override apply(changes: readonly Change<T>[]): void {
    this.#records = this.#after(changes)
    for (const { record, isRemoved } of changes) {
      if (isRemoved) this.#keys.delete(this.#table.keyOf(record))
      else this.#keys.add(this.#table.keyOf(record))
    }
  }

  #after(changes: readonly Change<T>[]): readonly T[] {
    if (changes.length === 0) return this.#records
    const { keyOf } = this.#table
    let records = [...this.#records]
    for (const { record, isRemoved } of changes) {
      if (isRemoved) records = records.filter((one) => keyOf(one) !== keyOf(record))
      else records.push(record)
    }
    return records
  }
}

/** Every queue that was used and is not forgotten, by name. */
export function queueRegister({
  queues,
  recordQueue,
  removeQueue,
}: Statements): AppendOnlyTable<QueueRecord> {
  return new AppendOnlyTable({
    records: queues.all(),
    keyOf: ({ name }) => name,
    insert: ({ name, createdAt }) => recordQueue.run(name, createdAt),
    remove: ({ name }) => removeQueue.run(name),
  })
}

/** Every retry queue that was declared, by `retryQueueKey`. */
export function retryQueueRegister({
  retryQueues,
  recordRetryQueue,
  removeRetryQueue,
}: Statements): AppendOnlyTable<RetryQueue> {
  return new AppendOnlyTable({
    records: retryQueues.all(),
    keyOf: ({ queue, delayMs }) => retryQueueKey(queue, delayMs),
    insert: ({ queue, delayMs }) => recordRetryQueue.run(queue, delayMs),
    remove: ({ queue, delayMs }) => removeRetryQueue.run(queue, delayMs),
  })
}
