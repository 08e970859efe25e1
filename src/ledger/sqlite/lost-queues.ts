import type { LostQueues } from '../queues.ts'
import type { Access } from './access.ts'
import type { Statements } from './statements.ts'

/**
 * See `LostQueues`. Not as it is committed, but at once: a doubt that could not be written down is no
 * less a doubt, and what gave rise to it is not seen twice.
 */
export class SqliteLostQueues implements LostQueues {
  readonly #statements: Statements
  readonly #access: Access
  /** By name: has it been written down? */
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
    await this.#access.write(() => this.#statements.markLost.run(queue, now))
    if (this.#isStored.has(queue)) this.#isStored.set(queue, true)
  }

  /** Its row says so already. */
  forget(queue: string): void {
    this.#isStored.delete(queue)
  }
}
