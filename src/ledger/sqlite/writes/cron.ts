/** Recurring jobs: the entries, their jobs and runs, in SQLite. */
import type { CronDefinition, CronEntry, CronStanding } from '../../../job/cron/entry.ts'
import {
  type CronLedger,
  type CronRun,
  type CronTick,
  type DueEntry,
  type Fired,
  KEPT_RUNS,
  type Made,
  type Making,
  type Registered,
  type RegisterTerms,
  type RemovedEntry,
  type StillDue,
  type TickChange,
  type Triggered,
} from '../../cron.ts'
import type { Inserted } from '../../enqueued.ts'
import type { CronReads } from '../../reads.ts'
import type { CronBook, CronState, NewRun } from '../../writes/cron.ts'
import * as shared from '../../writes/cron.ts'
import { unlessRemembered } from '../../writes/remembered.ts'
import type { Access } from '../commit/access.ts'
import type { DefinitionColumns, RawEntry } from '../sql/cron.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Store } from '../state/store.ts'
import { keysOf } from './idempotency.ts'
import { admit } from './unique.ts'

const UNKEYED = { request: undefined, now: 0 }

/** Bytes of templates that are read at once: for a list, which the answer holds twice, or for due entries. */
const MAX_LIST_BYTES = 4 * 1024 * 1024

/** One row per entry. Each job has the `seq` of its entry (`cron_entry`). */
export class SqliteCron implements CronLedger, CronReads {
  readonly #store: Store
  readonly #access: Access
  readonly #book: SqliteCronBook

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
    this.#book = new SqliteCronBook(store)
  }

  register(definition: CronDefinition, terms: RegisterTerms): Promise<Registered> {
    const { keyed = UNKEYED } = terms
    const store = () => shared.register(this.#book, definition, terms)
    return this.#access.writeMany(1, () =>
      unlessRemembered(keysOf(this.#store.statements), keyed, store, shared.registeredAnswer),
    )
  }

  trigger(name: string, at: number, making: Making, keyed = UNKEYED): Promise<Triggered> {
    const store = () => shared.trigger(this.#book, name, at, making)
    return this.#access.writeMany(1, () =>
      unlessRemembered(keysOf(this.#store.statements), keyed, store, shared.triggeredAnswer),
    )
  }

  async runs(
    name: string,
    { limit, offset }: { limit: number; offset: number },
  ): Promise<{ runs: CronRun[]; total: number }> {
    const { cronRuns, cronRunCount } = this.#store.statements
    return this.#access.read(() => {
      const seq = this.#book.find(name)?.seq ?? 0
      const runs = cronRuns.all(seq, limit, offset).map(({ manual, ...run }) => ({
        ...run,
        isManual: manual === 1,
      }))
      return { runs, total: onlyRow(cronRunCount.get(seq)).count }
    })
  }

  find(name: string): Promise<CronEntry | null> {
    return this.#access.ask(() => this.#book.find(name))
  }

  list({ limit, offset }: { limit: number; offset: number }): Promise<{
    entries: CronEntry[]
    total: number
  }> {
    const { cronSizes, cronList } = this.#store.statements
    return this.#access.ask(() => {
      const sizes = cronSizes.all(limit, offset)
      return {
        entries: cronList.all(fitting(sizes), offset).map(toEntry),
        total: this.#book.count(),
      }
    })
  }

  remove(name: string, wall: number): Promise<RemovedEntry | { outcome: 'missing' } | StillDue> {
    return this.#access.write(() => shared.remove(this.#book, name, wall))
  }

  due(wall: number, limit: number): Promise<DueEntry[]> {
    const { cronDue, cronDueSizes } = this.#store.statements
    return this.#access.ask(() =>
      cronDue
        .all(wall, fitting(cronDueSizes.all(wall, limit)))
        .map((raw) => ({ ...toEntry(raw), nextRunAt: raw.nextRunAt })),
    )
  }

  fire(tick: CronTick, change: TickChange): Promise<Fired> {
    return this.#access.writeMany(1, () => shared.fire(this.#book, tick, change))
  }

  ahead(wall: number, after: number, limit: number): Promise<CronStanding[]> {
    const { cronAhead } = this.#store.statements
    return this.#access.ask(() => cronAhead.all(after, wall, limit))
  }

  async reset({ seq, at }: CronTick, nextRunAt: number): Promise<void> {
    const { cronReset } = this.#store.statements
    await this.#access.write(() => cronReset.run(seq, at, nextRunAt))
  }

  releasable(after: string, limit: number): Promise<CronEntry[]> {
    const { cronReleasable, cronReleasableSizes } = this.#store.statements
    return this.#access.ask(() =>
      cronReleasable.all(after, fitting(cronReleasableSizes.all(after, limit))).map(toEntry),
    )
  }

  release(tick: CronTick, making: Making): Promise<Made | { outcome: 'stale' }> {
    return this.#access.writeMany(1, () => shared.release(this.#book, tick, making))
  }

  drop(tick: CronTick, reason: string): Promise<boolean> {
    return this.#access.write(() => shared.drop(this.#book, tick, reason))
  }
}

class SqliteCronBook implements CronBook {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  state(name: string): CronState | null {
    return this.find(name)
  }

  find(name: string): CronEntry | null {
    const raw = this.#store.statements.cronFind.get(name)
    return raw === undefined ? null : toEntry(raw)
  }

  count(): number {
    return onlyRow(this.#store.statements.cronCount.get()).count
  }

  insert(
    definition: CronDefinition,
    { nextRunAt, createdAt }: Pick<CronEntry, 'nextRunAt' | 'createdAt'>,
  ): CronEntry {
    const { cronInsert } = this.#store.statements
    return toEntry(onlyRow(cronInsert.get(...columnsOf(definition), nextRunAt, createdAt)))
  }

  replace(
    _: CronEntry,
    definition: CronDefinition,
    { nextRunAt, queued }: Pick<CronEntry, 'nextRunAt' | 'queued'>,
  ): CronEntry {
    const { cronReplace } = this.#store.statements
    const raw = cronReplace.get(...columnsOf(definition), nextRunAt, textOf(queued))
    return toEntry(onlyRow(raw))
  }

  remove({ name, seq }: CronState): void {
    this.#store.statements.cronRemove.run(name)
    this.#store.statements.cronRunForget.run(seq)
  }

  live({ seq }: Pick<CronState, 'seq'>, limit: number): string[] {
    const rows = this.#store.statements.cronLive.all(seq, limit)
    return rows.map(({ id }) => id)
  }

  move({ seq }: CronState, { nextRunAt, queued }: Pick<CronEntry, 'nextRunAt' | 'queued'>): void {
    this.#store.statements.cronMove.run(seq, nextRunAt, textOf(queued))
  }

  ran({ seq, at }: CronTick, jobId: string): void {
    this.#store.statements.cronOwn.run(jobId, seq)
    this.#store.statements.cronRan.run(seq, jobId, at)
  }

  note({ seq }: CronTick, { scheduledAt, isManual, jobId, reason }: NewRun): void {
    const { cronRunInsert, cronRunTrim } = this.#store.statements
    cronRunInsert.run(seq, scheduledAt, isManual ? 1 : 0, jobId, reason)
    cronRunTrim.run(seq, KEPT_RUNS)
  }

  admit({ job, now, isUnsettled }: Making): Inserted {
    return admit(this.#store, job, now, { isUnsettled, cause: { reason: 'cron' } })
  }
}

function columnsOf(definition: CronDefinition): DefinitionColumns {
  const { name, isEnabled, expression, timezone, overlap, description, template } = definition
  const enabled = isEnabled ? 1 : 0
  return [name, enabled, expression, timezone, overlap, description, JSON.stringify(template)]
}

function textOf(queued: readonly number[]): string | null {
  return queued.length === 0 ? null : JSON.stringify(queued)
}

function toEntry({ enabled, queued, template, ...entry }: RawEntry): CronEntry {
  return {
    ...entry,
    isEnabled: enabled === 1,
    queued: queued === null ? [] : (JSON.parse(queued) as number[]),
    template: JSON.parse(template) as CronEntry['template'],
  }
}

/** How many of these entries fit into one read: at least one, which may be as large as a request. */
function fitting(sizes: readonly { bytes: number }[]): number {
  let left = MAX_LIST_BYTES
  const firstTooMany = sizes.findIndex(({ bytes }, i) => {
    left -= bytes
    return i > 0 && left < 0
  })
  return firstTooMany === -1 ? sizes.length : firstTooMany
}
