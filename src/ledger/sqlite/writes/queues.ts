/** Writes about queues: pauses, and since when they have been idle. */
import type { KnownIdle, KnownPauses } from '../../known.ts'
import type { IdleQueues, QueuePauses } from '../../queues.ts'
import {
  type IdleChange,
  isEmptyQueue,
  isIdleQueue,
  lookAtQueues,
} from '../../writes/idle-queues.ts'
import type { Access } from '../commit/access.ts'
import { type Flag, onlyRow } from '../sql/driver.ts'
import type { SqliteLostQueues } from '../state/lost-queues.ts'
import type { Store } from '../state/store.ts'

/** See `IdleQueues`. */
export class SqliteIdleQueues implements IdleQueues, KnownIdle {
  readonly #store: Store
  readonly #access: Access
  readonly #seen: Parameters<typeof isIdleQueue>[0]
  /** Since when each idle queue has been idle, as committed. */
  readonly #since: Map<string, number>

  constructor(store: Store, access: Access, lost: SqliteLostQueues) {
    this.#store = store
    this.#access = access
    const { counter, pauses, queueSettings, stale } = store
    this.#seen = {
      counts: (queue) => counter.of(queue),
      deadLetterCount: (queue) => counter.deadLetters(queue ?? null),
      pauses: { since: (queue) => pauses.since(queue), owed: () => pauses.owed },
      staleCopies: () => stale.all(),
      ...{ queueSettings, lost },
    }
    const rows = store.statements.idleQueues.all()
    this.#since = new Map(rows.map(({ name, since }) => [name, since]))
  }

  async look(now: number, idleMs: number, isUsed: (queue: string) => boolean): Promise<string[]> {
    await this.#forgetCounts()
    const lastAt = (queue: string) => this.#store.traffic.lastAt(queue)
    const noticed = { seen: this.#seen, since: this.#since, isUsed, lastAt }
    const { changes, due } = lookAtQueues(this.#store.queues.all(), noticed, { now, idleMs })
    await this.#note(changes)
    return due
  }

  isIdle(queue: string): boolean {
    return isIdleQueue(this.#seen, queue)
  }

  isEmpty(queue: string): boolean {
    return isEmptyQueue(this.#seen, queue)
  }

  forget(queue: string): Promise<boolean> {
    return this.#forget(queue, 0)
  }

  delete(queue: string): Promise<boolean> {
    return this.#forget(queue, 1)
  }

  async #forget(queue: string, isAsked: Flag): Promise<boolean> {
    const { counter, pauses, queueSettings, queues, retryQueues, statements, traffic } = this.#store
    const isForgotten = await this.#access.writeMany(2, () => {
      const record = queues.allNow().find(({ name }) => name === queue)
      // A queue that was lost before it was recorded has the mark in memory only.
      if (record === undefined || (isAsked === 0 && this.#seen.lost.has(queue))) return false
      if (onlyRow(statements.isQueueUsed.get(queue, isAsked)).isUsed) return false
      queues.remove(record)
      for (const retryQueue of retryQueues.allNow())
        if (retryQueue.queue === queue) retryQueues.remove(retryQueue)
      counter.forget(queue)
      traffic.forget(queue)
      if (isAsked === 1) {
        pauses.note({ queue, pausedAt: null, isOwed: false })
        queueSettings.note(queue, null)
      }
      return true
    })
    if (!isForgotten) return false
    this.#since.delete(queue)
    return true
  }

  async #note(changes: readonly IdleChange[]): Promise<void> {
    if (changes.length === 0) return
    const { noteIdle } = this.#store.statements
    await this.#access.writeMany(changes.length, () => {
      for (const { queue, since } of changes) noteIdle.run(queue, since)
    })
    for (const { queue, since } of changes) {
      if (since === null) this.#since.delete(queue)
      else this.#since.set(queue, since)
    }
  }

  /** The ended jobs of forgotten queues are pruned later, and leave counts of 0. */
  async #forgetCounts(): Promise<void> {
    const { counter, queues } = this.#store
    const names = counter.empty().filter((queue) => !queues.has(queue))
    if (names.length === 0) return
    await this.#access.writeMany(names.length, () => {
      for (const queue of names) counter.forget(queue)
    })
  }
}

/** See `QueuePauses`. */
export class SqlitePauses implements QueuePauses, KnownPauses {
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
