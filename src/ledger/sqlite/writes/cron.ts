/** Recurring jobs: registers entries, fires ticks. */
import type { CronDefinition, CronEntry, CronStanding } from '../../../job/cron/entry.ts'
import { freshRow } from '../../../job/job.ts'
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
import type { CronReads } from '../../reads.ts'
import type { Access } from '../commit/access.ts'
import type { DefinitionColumns, RawEntry } from '../sql/cron.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Store } from '../state/store.ts'
import { unlessRemembered } from './idempotency.ts'
import { admit } from './unique.ts'

const UNKEYED = { request: undefined, now: 0 }

/** How many live jobs of an entry are returned as `runningIds`: one round of `cancel_previous`. */
const LIVE_PAGE = 100

/** Bytes of templates that are read at once: for a list, which the answer holds twice, or for due entries. */
const MAX_LIST_BYTES = 4 * 1024 * 1024

/** Recurring jobs: one row per entry. Each job has the `seq` of its entry (`cron_entry`). */
export class SqliteCron implements CronLedger, CronReads {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  register(definition: CronDefinition, terms: RegisterTerms): Promise<Registered> {
    const { keyed = UNKEYED } = terms
    const store = () => this.#register(definition, terms)
    return this.#access.writeMany(1, () =>
      unlessRemembered(this.#store.statements, keyed, store, answerOf),
    )
  }

  trigger(name: string, at: number, making: Making, keyed = UNKEYED): Promise<Triggered> {
    return this.#access.writeMany(1, () =>
      unlessRemembered(
        this.#store.statements,
        keyed,
        (): Triggered => {
          const entry = this.#find(name)
          if (entry === null) return { outcome: 'missing' }
          return this.#make({ name, seq: entry.seq, at }, making, true)
        },
        (made) => (made.outcome === 'fired' ? { ids: [made.job.id], existing: [] } : null),
      ),
    )
  }

  async runs(
    name: string,
    { limit, offset }: { limit: number; offset: number },
  ): Promise<{ runs: CronRun[]; total: number }> {
    const { cronRuns, cronRunCount } = this.#store.statements
    return this.#access.read(() => {
      const seq = this.#find(name)?.seq ?? 0
      const runs = cronRuns.all(seq, limit, offset).map(({ manual, ...run }) => ({
        ...run,
        isManual: manual === 1,
      }))
      return { runs, total: onlyRow(cronRunCount.get(seq)).count }
    })
  }

  find(name: string): Promise<CronEntry | null> {
    return this.#access.ask(() => this.#find(name))
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
        total: this.#count(),
      }
    })
  }

  remove(name: string, wall: number): Promise<RemovedEntry | { outcome: 'missing' } | StillDue> {
    return this.#access.write(() => {
      const present = this.#find(name)
      if (present === null) return { outcome: 'missing' }
      if (isDue(present, wall)) return { outcome: 'due', entry: present }
      this.#store.statements.cronRemove.run(name)
      this.#store.statements.cronRunForget.run(present.seq)
      return { outcome: 'removed', entry: present }
    })
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
    return this.#access.writeMany(1, () => this.#fire(tick, change))
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
    return this.#access.writeMany(1, () => {
      const entry = this.#queuedAt(tick)
      if (!entry?.isEnabled || this.#live(entry, 1).length > 0) return { outcome: 'stale' }
      const made = this.#make(tick, making)
      if (made.outcome !== 'unsettled') this.#move(entry, entry.nextRunAt, entry.queued.slice(1))
      return made
    })
  }

  drop(tick: CronTick, reason: string): Promise<boolean> {
    return this.#access.write(() => {
      const entry = this.#queuedAt(tick)
      if (entry) {
        this.#move(entry, entry.nextRunAt, entry.queued.slice(1))
        this.#noteSkipped(tick, reason)
      }
      return entry !== null
    })
  }

  #register(definition: CronDefinition, terms: RegisterTerms): Registered {
    const present = this.#find(definition.name)
    if (present !== null) {
      return terms.isReplacing
        ? this.#replace(present, definition, terms)
        : { outcome: 'duplicate' }
    }
    if (this.#count() >= terms.limit) return { outcome: 'full' }
    const raw = this.#store.statements.cronInsert.get(
      ...columnsOf(definition),
      terms.nextRunAt,
      terms.createdAt,
    )
    return { outcome: 'registered', entry: toEntry(onlyRow(raw)) }
  }

  #replace(present: CronEntry, definition: CronDefinition, terms: RegisterTerms): Registered {
    if (terms.basis && !isSame(present, terms.basis)) return { outcome: 'changed' }
    if (isDue(present, terms.createdAt)) return { outcome: 'due', entry: present }
    // If the clock was set back, the next time is the one after those that have their jobs already.
    const isTimeKept = hasSameTimes(present, definition) && present.nextRunAt !== null
    const raw = this.#store.statements.cronReplace.get(
      ...columnsOf(definition),
      isTimeKept ? present.nextRunAt : terms.nextRunAt,
      definition.isEnabled || terms.isKeepingQueued ? textOf(present.queued) : null,
    )
    return { outcome: 'replaced', entry: toEntry(onlyRow(raw)), before: present }
  }

  #fire(tick: CronTick, change: TickChange): Fired {
    const entry = this.#entryOf(tick)
    if (entry?.nextRunAt !== tick.at) return { outcome: 'stale' }
    const fired = this.#verdict(entry, tick, change)
    if (fired.outcome === 'blocked' || fired.outcome === 'unsettled') return fired
    const isQueued = fired.outcome === 'queued'
    this.#move(entry, change.nextRunAt, isQueued ? [...entry.queued, tick.at] : entry.queued)
    const reason = reasonOf(fired, change.reason)
    if (reason !== null) this.#noteSkipped(tick, reason)
    return fired
  }

  /** The overlap policy is asked first, then the `unique` policy of the job (OJS cron). */
  #verdict(entry: CronEntry, tick: CronTick, { job, maxQueued, ...rest }: TickChange): Fired {
    if (job === null) return { outcome: 'skipped' }
    const overlap = this.#overlap(entry, maxQueued)
    return overlap === 'free' ? this.#make(tick, { job, ...rest }) : overlap
  }

  /** What the overlap policy says about a tick, given the jobs of earlier ticks; `free`: make the job. */
  #overlap(entry: CronEntry, maxQueued: number): Fired | 'free' {
    if (entry.overlap === 'allow') return 'free'
    const runningIds = this.#live(entry, LIVE_PAGE)
    if (runningIds.length === 0 && entry.queued.length === 0) return 'free'
    if (entry.overlap === 'cancel_previous') return { outcome: 'blocked', runningIds }
    // No job runs if only queued ticks are before this one.
    const runningId = runningIds[0] ?? entry.lastJobId
    if (entry.overlap === 'skip') return { outcome: 'overlapped', runningId }
    return entry.queued.length < maxQueued
      ? { outcome: 'queued' }
      : { outcome: 'queue-full', runningId }
  }

  #make(tick: CronTick, { job, now, isUnsettled }: Making, isManual = false): Made {
    const admitted = admit(this.#store, job, now, { isUnsettled, cause: { reason: 'cron' } })
    switch (admitted.outcome) {
      case 'inserted': {
        const { cancelled = [], job: placed = job } = admitted.replacing ?? {}
        this.#store.statements.cronOwn.run(job.id, tick.seq)
        this.#store.statements.cronRan.run(tick.seq, job.id, tick.at)
        this.#note(tick, { jobId: job.id, reason: null, isManual })
        return { outcome: 'fired', job: freshRow(placed, admitted), cancelled }
      }
      case 'existing':
        return { outcome: 'unneeded', existingId: admitted.job.id }
      case 'conflict':
        return { outcome: 'unneeded', existingId: admitted.existing.id }
      case 'unsettled':
        return { outcome: 'unsettled' }
      case 'duplicate':
      case 'remembered':
        throw new Error(`the id ${job.id} was minted twice`)
    }
  }

  #noteSkipped(tick: CronTick, reason: string): void {
    this.#note(tick, { jobId: null, reason, isManual: false })
  }

  #note(
    { seq, at }: CronTick,
    { jobId, reason, isManual }: Pick<CronRun, 'jobId' | 'reason' | 'isManual'>,
  ): void {
    const { cronRunInsert, cronRunTrim } = this.#store.statements
    cronRunInsert.run(seq, at, isManual ? 1 : 0, jobId, reason)
    cronRunTrim.run(seq, KEPT_RUNS)
  }

  #move({ seq }: CronEntry, nextRunAt: number | null, queued: readonly number[]): void {
    this.#store.statements.cronMove.run(seq, nextRunAt, textOf(queued))
  }

  #live({ seq }: CronEntry, limit: number): string[] {
    const rows = this.#store.statements.cronLive.all(seq, limit)
    return rows.map(({ id }) => id)
  }

  #queuedAt(tick: CronTick): CronEntry | null {
    const entry = this.#entryOf(tick)
    return entry?.queued[0] === tick.at ? entry : null
  }

  /** Null: the entry is gone, or another entry has its name by now. */
  #entryOf({ name, seq }: CronTick): CronEntry | null {
    const entry = this.#find(name)
    return entry?.seq === seq ? entry : null
  }

  #find(name: string): CronEntry | null {
    const raw = this.#store.statements.cronFind.get(name)
    return raw === undefined ? null : toEntry(raw)
  }

  #count(): number {
    return onlyRow(this.#store.statements.cronCount.get()).count
  }
}

function columnsOf(definition: CronDefinition): DefinitionColumns {
  const { name, isEnabled, expression, timezone, overlap, description, template } = definition
  const enabled = isEnabled ? 1 : 0
  return [name, enabled, expression, timezone, overlap, description, JSON.stringify(template)]
}

function isSame(present: CronDefinition, basis: CronDefinition): boolean {
  return JSON.stringify(columnsOf(present)) === JSON.stringify(columnsOf(basis))
}

/** Why a tick made no job, with the words of `cron.skipped`; null: it made one, or may yet. */
function reasonOf({ outcome }: Fired, given: string | undefined): string | null {
  switch (outcome) {
    case 'skipped':
      return given ?? 'skipped'
    case 'overlapped':
      return 'overlap'
    case 'queue-full':
      return 'queue_full'
    case 'unneeded':
      return 'duplicate'
    default:
      return null
  }
}

function textOf(queued: readonly number[]): string | null {
  return queued.length === 0 ? null : JSON.stringify(queued)
}

function isDue(entry: CronEntry, wall: number): entry is DueEntry {
  return entry.nextRunAt !== null && entry.nextRunAt <= wall
}

function hasSameTimes(present: CronDefinition, definition: CronDefinition): boolean {
  return (
    definition.isEnabled &&
    present.expression === definition.expression &&
    present.timezone === definition.timezone
  )
}

/** The `seq` tells the entry from a later one of the same name. */
function answerOf(registered: Registered) {
  const { outcome } = registered
  if (outcome !== 'registered' && outcome !== 'replaced') return null
  const { name, seq } = registered.entry
  return { ids: [name, String(seq)], existing: outcome === 'replaced' ? [0] : [] }
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
