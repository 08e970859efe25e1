/** Queues so new that RabbitMQ may come back without them if it is killed now. */
import type { KnownUnwritten } from '../../known.ts'
import type { UnwrittenQueues } from '../../queues.ts'
import type { Access } from '../commit/access.ts'
import type { Statements } from '../sql/statements.ts'

/** See `UnwrittenQueues`. */
export class SqliteUnwrittenQueues implements UnwrittenQueues, KnownUnwritten {
  readonly #statements: Statements
  readonly #access: Access
  readonly #names: Set<string>

  constructor(statements: Statements, access: Access) {
    this.#statements = statements
    this.#access = access
    this.#names = new Set(statements.unwrittenQueues.all().map(({ name }) => name))
  }

  has(queue: string): boolean {
    return this.#names.has(queue)
  }

  /** Writes even if the queue is marked already, because a `settle` that is under way may remove the mark. */
  async mark(queue: string): Promise<void> {
    await this.#access.write(() => this.#statements.markUnwritten.run(queue))
    this.#names.add(queue)
  }

  async settle(queue: string): Promise<void> {
    if (!this.#names.has(queue)) return
    await this.#access.write(() => this.#statements.markWritten.run(queue))
    this.#names.delete(queue)
  }
}
