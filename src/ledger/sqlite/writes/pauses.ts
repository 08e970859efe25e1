/** Pauses and resumes queues. */
import type { QueuePauses } from '../../queues.ts'
import type { Access } from '../commit/access.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Store } from '../state/store.ts'

/** See `QueuePauses`. */
export class SqlitePauses implements QueuePauses {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  since(queue: string): number | null {
    return this.#store.pauses.since(queue)
  }

  pause(queue: string, now: number): Promise<{ pausedAt: number; isNew: boolean }> {
    const { statements, queues, pauses } = this.#store
    return this.#access.writeMany(2, () => {
      queues.record({ name: queue, createdAt: now })
      const isNew = statements.pauseQueue.run(queue, now).changes === 1
      if (isNew) pauses.note({ queue, pausedAt: now, isOwed: true })
      const { pausedAt } = onlyRow(statements.pausedAt.get(queue))
      return { pausedAt, isNew }
    })
  }

  resume(queue: string, now: number): Promise<{ isNew: boolean }> {
    const { statements, queues, pauses } = this.#store
    return this.#access.writeMany(2, () => {
      queues.record({ name: queue, createdAt: now })
      const isNew = statements.resumeQueue.run(queue).changes === 1
      if (isNew) pauses.note({ queue, pausedAt: null, isOwed: true })
      return { isNew }
    })
  }

  owed(): ReadonlySet<string> {
    return this.#store.pauses.owed
  }

  told(queue: string, pausedAt: number | null): void {
    const { statements, pauses } = this.#store
    this.#access.writeLazily(() => {
      const isStill = statements.pauseTold.run(queue, pausedAt).changes === 1
      if (isStill) pauses.note({ queue, pausedAt, isOwed: false })
    })
  }
}
