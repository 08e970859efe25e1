import { rungKey } from '../../job/backoff.ts'
import type { QueueRecord, Rung } from '../ledger.ts'
import type { Companion } from './companion.ts'
import { Notes } from './notes.ts'
import type { Statements } from './statements.ts'

interface Table<T> {
  records: readonly T[]
  keyOf(record: T): string
  /** Changes no row if the record exists already. */
  insert(record: T): { changes: number }
}

/** A table that only grows, kept in memory as committed. */
export class Register<T> implements Companion {
  readonly #table: Table<T>
  #records: readonly T[]
  readonly #keys: Set<string>
  readonly #added = new Notes<T>()

  constructor(table: Table<T>) {
    this.#table = table
    this.#records = table.records
    this.#keys = new Set(table.records.map((record) => table.keyOf(record)))
  }

  all(): readonly T[] {
    return this.#records
  }

  /** As committed. */
  has(key: string): boolean {
    return this.#keys.has(key)
  }

  /** Inside a write: stores the record unless it is known. */
  record(record: T): void {
    if (this.#keys.has(this.#table.keyOf(record))) return
    if (this.#table.insert(record).changes === 1) this.#added.add(record)
  }

  keep(): void {
    this.#added.keep()
  }

  undo(): void {
    this.#added.undo()
  }

  store(): void {}

  commit(): void {
    if (this.#added.isEmpty) return
    this.#records = [...this.#records, ...this.#added.all]
    for (const record of this.#added.all) this.#keys.add(this.#table.keyOf(record))
    this.discard()
  }

  discard(): void {
    this.#added.discard()
  }
}

/** Every queue that was ever used, by name. */
export function queueRegister({ queues, recordQueue }: Statements): Register<QueueRecord> {
  return new Register({
    records: queues.all(),
    keyOf: ({ name }) => name,
    insert: ({ name, createdAt }) => recordQueue.run(name, createdAt),
  })
}

/** Every rung that was ever declared, by `rungKey`. */
export function rungRegister({ rungs, recordRung }: Statements): Register<Rung> {
  return new Register({
    records: rungs.all(),
    keyOf: ({ queue, delayMs }) => rungKey(queue, delayMs),
    insert: ({ queue, delayMs }) => recordRung.run(queue, delayMs),
  })
}
