/** Queues that are gone from RabbitMQ: nothing is published before their jobs are rearmed. */
import type { KnownLosses } from '../../known.ts'
import type { LostQueues } from '../../queues.ts'
import type { Access } from '../commit/access.ts'
import type { Statements } from '../sql/statements.ts'

/**
 * See `KnownLosses`. Unlike other state in memory, a mark counts at once and not from the commit on: if the
 * write fails, the queue is lost all the same, and its loss would not be noticed a second time.
 */
export class SqliteLostQueues implements LostQueues, KnownLosses {
  readonly #statements: Statements
  readonly #access: Access
  /** Lost queues by name: is the mark in the file as well? */
  readonly #isStored = new Map<string, boolean>()

  constructor(statements: Statements, access: Access) {
    this.#statements = statements
    this.#access = access
    for (const { name } of statements.lostQueues.all()) this.#isStored.set(name, true)
  }

  has(queue: string): boolean {
    return this.#isStored.has(queue)
  }

  all(): readonly string[] {
    return [...this.#isStored.keys()]
  }

  async mark(queue: string, now: number): Promise<void> {
    if (this.#isStored.get(queue)) return
    this.#isStored.set(queue, false)
    // Of a queue that is not recorded there is no row yet.
    const isStored = await this.#access.write(
      () => this.#statements.markLost.run(queue, now).changes > 0,
    )
    if (this.#isStored.has(queue)) this.#isStored.set(queue, isStored)
  }

  /** In memory only: the caller's write has cleared the row already. */
  forget(queue: string): void {
    this.#isStored.delete(queue)
  }
}
