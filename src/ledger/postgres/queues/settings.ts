/** What operators set for queues. */
import {
  NOT_CONFIGURED,
  type QueueConfiguration,
  type QueueSettings,
  type QueueSettingsLedger,
} from '../../queue-settings.ts'
import { configurationText, settingsIn } from '../../writes/queue-settings.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import type { PartDeps } from '../part.ts'

export class PostgresQueueSettings implements QueueSettingsLedger {
  readonly #groups: Groups
  readonly #memory: Memory

  constructor({ groups, memory }: PartDeps) {
    this.#groups = groups
    this.#memory = memory
  }

  of(queue: string): QueueSettings | null {
    return this.#memory.queueSettings.get(queue) ?? null
  }

  drain(queue: string, now: number): Promise<{ since: number; isNew: boolean }> {
    return this.#groups.write({ wants: {}, run: (draft) => drain(draft, queue, now) })
  }

  endDrain(queue: string): Promise<boolean> {
    return this.#groups.write({ wants: {}, run: (draft) => endDrain(draft, queue) })
  }

  configure(
    queue: string,
    change: Partial<QueueConfiguration>,
    now: number,
  ): Promise<QueueConfiguration> {
    return this.#groups.write({ wants: {}, run: (draft) => configure(draft, queue, change, now) })
  }
}

const NOTHING: QueueSettings = { drainingAt: null, configuration: NOT_CONFIGURED }

function settingsOf(draft: Draft, queue: string): QueueSettings {
  return draft.changes.valueIn(draft.memory.queueSettings, queue) ?? NOTHING
}

function drain(draft: Draft, queue: string, now: number): { since: number; isNew: boolean } {
  draft.recordQueue(queue, now)
  const settings = settingsOf(draft, queue)
  const since = settings.drainingAt
  if (since !== null) return { since, isNew: false }
  set(draft, queue, { ...settings, drainingAt: now })
  return { since: now, isNew: true }
}

function endDrain(draft: Draft, queue: string): boolean {
  const settings = settingsOf(draft, queue)
  if (settings.drainingAt === null) return false
  set(draft, queue, { ...settings, drainingAt: null })
  return true
}

function configure(
  draft: Draft,
  queue: string,
  change: Partial<QueueConfiguration>,
  now: number,
): QueueConfiguration {
  draft.recordQueue(queue, now)
  const settings = settingsOf(draft, queue)
  const configuration = { ...settings.configuration, ...change }
  set(draft, queue, { ...settings, configuration })
  return configuration
}

function set(draft: Draft, queue: string, { drainingAt, configuration }: QueueSettings): void {
  const stored = configurationText(configuration)
  const text = `UPDATE ${draft.schema}.queues SET draining_at = $2, configuration = $3
    WHERE name = $1`
  const settings = settingsIn({ drainingAt, configuration: stored }) ?? undefined
  const statement = { text, values: [queue, drainingAt, stored] }
  draft.changes.setIn(draft.memory.queueSettings, queue, settings, statement)
}
