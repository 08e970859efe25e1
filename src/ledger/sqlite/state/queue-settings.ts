/** What operators set for queues: columns of their rows, and in memory as committed. */
import type { QueueRecord } from '../../known.ts'
import type {
  QueueConfiguration,
  QueueSettings,
  QueueSettingsLedger,
} from '../../queue-settings.ts'
import {
  configurationIn,
  configurationText,
  type StoredSettings,
  settingsIn,
} from '../../writes/queue-settings.ts'
import type { Access } from '../commit/access.ts'
import { NotedState } from '../commit/committed-state.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'
import type { AppendOnlyTable } from './append-only-table.ts'

/** The parts of `Store` that these writes use. */
interface Parts {
  statements: Statements
  queues: AppendOnlyTable<QueueRecord>
  queueSettings: QueueSettingsState
}

interface Change {
  queue: string
  settings: QueueSettings | null
}

/** The settings in memory. Usually there are few or none, so asking is cheap. */
export class QueueSettingsState extends NotedState<Change> {
  readonly #settings = new Map<string, QueueSettings>()

  constructor({ queueSettings }: Statements) {
    super()
    for (const { queue, ...row } of queueSettings.all()) this.#set(queue, settingsIn(row))
  }

  of(queue: string): QueueSettings | null {
    return this.#settings.get(queue) ?? null
  }

  /** Inside a write: the queue's settings after it. */
  note(queue: string, settings: QueueSettings | null): void {
    this.notes.add({ queue, settings })
  }

  protected override apply(changes: readonly Change[]): void {
    for (const { queue, settings } of changes) this.#set(queue, settings)
  }

  #set(queue: string, settings: QueueSettings | null): void {
    if (settings === null) this.#settings.delete(queue)
    else this.#settings.set(queue, settings)
  }
}

/** See `QueueSettingsLedger`. */
export class SqliteQueueSettings implements QueueSettingsLedger {
  readonly #store: Parts
  readonly #access: Access

  constructor(store: Parts, access: Access) {
    this.#store = store
    this.#access = access
  }

  of(queue: string): QueueSettings | null {
    return this.#store.queueSettings.of(queue)
  }

  drain(queue: string, now: number): Promise<{ since: number; isNew: boolean }> {
    const { queues, statements } = this.#store
    return this.#access.writeMany(2, () => {
      queues.record({ name: queue, createdAt: now })
      const isNew = statements.drainQueue.run(queue, now).changes === 1
      const { drainingAt } = this.#note(queue)
      return { since: drainingAt ?? now, isNew }
    })
  }

  endDrain(queue: string): Promise<boolean> {
    return this.#access.write(() => {
      if (this.#store.statements.endDrain.run(queue).changes === 0) return false
      this.#note(queue)
      return true
    })
  }

  configure(
    queue: string,
    change: Partial<QueueConfiguration>,
    now: number,
  ): Promise<QueueConfiguration> {
    const { queues, statements } = this.#store
    return this.#access.writeMany(2, () => {
      queues.record({ name: queue, createdAt: now })
      const row = onlyRow(statements.queueSettingsOf.get(queue))
      const changed = { ...configurationIn(row.configuration), ...change }
      statements.configureQueue.run(queue, configurationText(changed))
      this.#note(queue)
      return changed
    })
  }

  /** Inside a write that has changed the row. */
  #note(queue: string): StoredSettings {
    const { queueSettings, statements } = this.#store
    const row = onlyRow(statements.queueSettingsOf.get(queue))
    queueSettings.note(queue, settingsIn(row))
    return row
  }
}
