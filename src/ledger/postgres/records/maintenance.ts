/** Maintenance mode. */
import type { Maintenance, MaintenanceLedger } from '../../maintenance.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import type { PartDeps } from '../part.ts'

export class PostgresMaintenance implements MaintenanceLedger {
  readonly #groups: Groups
  readonly #memory: Memory

  constructor({ groups, memory }: PartDeps) {
    this.#groups = groups
    this.#memory = memory
  }

  current(): Maintenance | null {
    return this.#memory.maintenance.get('now') ?? null
  }

  begin(maintenance: Maintenance): Promise<{ maintenance: Maintenance; isNew: boolean }> {
    return this.#groups.write({ wants: {}, run: (draft) => begin(draft, maintenance) })
  }

  end(): Promise<Maintenance | null> {
    return this.#groups.write({ wants: {}, run: end })
  }
}

function begin(draft: Draft, given: Maintenance): { maintenance: Maintenance; isNew: boolean } {
  const { changes, memory, schema } = draft
  const present = changes.valueIn(memory.maintenance, 'now')
  const maintenance = { ...given, startedAt: present?.startedAt ?? given.startedAt }
  const text = `INSERT INTO ${schema}.maintenance (started_at, ends_at, reason) VALUES ($1, $2, $3)
    ON CONFLICT (only_row) DO UPDATE SET ends_at = excluded.ends_at, reason = excluded.reason`
  const { startedAt, endsAt, reason } = maintenance
  const statement = { text, values: [startedAt, endsAt, reason] }
  changes.setIn(memory.maintenance, 'now', maintenance, statement)
  return { maintenance, isNew: present === undefined }
}

function end({ changes, memory, schema }: Draft): Maintenance | null {
  const present = changes.valueIn(memory.maintenance, 'now')
  if (present === undefined) return null
  const text = `DELETE FROM ${schema}.maintenance`
  changes.setIn(memory.maintenance, 'now', undefined, { text })
  return present
}
