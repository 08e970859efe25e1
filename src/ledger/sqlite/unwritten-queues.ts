import type { UnwrittenQueues } from '../queues.ts'
import type { Access } from './access.ts'
import type { Store } from './store.ts'

/** See `UnwrittenQueues`. */
export class SqliteUnwrittenQueues implements UnwrittenQueues {
  readonly #store: Store
  readonly #access: Access
  readonly #names: Set<string>

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
    this.#names = new Set(store.statements.unwrittenQueues.all().map(({ name }) => name))
  }

  has(queue: string): boolean {
    return this.#names.has(queue)
  }

  async mark(queue: string, now: number): Promise<void> {
    await this.#access.write(() => {
      this.#store.queues.record({ name: queue, createdAt: now })
      this.#store.statements.markUnwritten.run(queue, now)
    })
    this.#names.add(queue)
  }

  async settle(queue: string): Promise<void> {
    if (!this.#names.has(queue)) return
    await this.#access.write(() => this.#store.statements.markUnwritten.run(queue, null))
    this.#names.delete(queue)
  }
}
