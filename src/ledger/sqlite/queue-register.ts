import type { QueueRecord } from '../ledger.ts'
import type { Companion } from './companion.ts'
import type { Statements } from './statements.ts'

/** Every queue that was ever used, from memory. */
export class QueueRegister implements Companion {
  readonly #statements: Statements
  #records: readonly QueueRecord[]
  readonly #names: Set<string>
  #added: QueueRecord[] = []
  #keptAdded = 0

  constructor(statements: Statements) {
    this.#statements = statements
    this.#records = statements.queues.all() as QueueRecord[]
    this.#names = new Set(this.#records.map((record) => record.name))
  }

  all(): readonly QueueRecord[] {
    return this.#records
  }

  /** As committed. */
  has(name: string): boolean {
    return this.#names.has(name)
  }

  /** Inside a write: stores the queue unless it is known. */
  record(name: string, now: number): void {
    if (this.#names.has(name)) return
    const { changes } = this.#statements.recordQueue.run(name, now)
    if (changes === 1) this.#added.push({ name, createdAt: now })
  }

  keep(): void {
    this.#keptAdded = this.#added.length
  }

  undo(): void {
    this.#added.length = this.#keptAdded
  }

  store(): void {}

  commit(): void {
    if (this.#added.length === 0) return
    this.#records = [...this.#records, ...this.#added]
    for (const { name } of this.#added) this.#names.add(name)
    this.discard()
  }

  discard(): void {
    this.#added = []
    this.#keptAdded = 0
  }
}
