/** Recurring jobs: the entries, their jobs and runs, in a group. */
import { type CronDefinition, type CronEntry, definitionOf } from '../../../job/cron/entry.ts'
import { type CronTick, KEPT_RUNS, type Making } from '../../cron.ts'
import type { Inserted } from '../../enqueued.ts'
import { type CronBook, type CronState, entryOf, type NewRun } from '../../writes/cron.ts'
import type { Statement } from '../connection.ts'
import { ENTRIES, TEMPLATES, toEntry, toRow, toState } from '../group/cron.ts'
import type { Draft } from '../group/draft.ts'
import { admitOne } from './unique.ts'

type Next = Pick<CronEntry, 'nextRunAt' | 'queued'>

/** The jobs of an entry that are not over, oldest first. */
export function liveJobs(schema: string, seq: number, limit: number): Statement {
  const text = `SELECT id FROM ${schema}.jobs
    WHERE cron_entry = $1 AND ended_at IS NULL ORDER BY seq LIMIT $2`
  return { text, values: [seq, limit] }
}

/** `wall`: fixed when the write is requested. */
export class DraftCronBook implements CronBook {
  readonly #draft: Draft
  readonly #schema: string
  readonly #wall: number

  constructor(draft: Draft, schema: string, wall: number) {
    this.#draft = draft
    this.#schema = schema
    this.#wall = wall
  }

  state(name: string): CronState | null {
    const row = this.#draft.side(ENTRIES, name)
    return row && toState(name, row)
  }

  find(name: string): CronEntry | null {
    const state = this.state(name)
    const text = state && this.#draft.side(TEMPLATES, name)
    return state && text && toEntry(state, text.template)
  }

  /** In a group of its own. */
  count(): number {
    const text = `SELECT count(*) AS n FROM ${this.#schema}.cron_jobs`
    return Number(this.#draft.ask({ text })[0]?.['n'])
  }

  insert(definition: CronDefinition, first: Pick<CronEntry, 'nextRunAt' | 'createdAt'>): CronEntry {
    const ran = { lastRunAt: null, lastJobId: null, runCount: 0, queued: [] }
    // No nonce is given out twice, and they grow.
    return this.#put({ ...definition, ...first, ...ran, seq: this.#draft.nextNonce() })
  }

  replace(present: CronEntry, definition: CronDefinition, next: Next): CronEntry {
    // The definition may be of an entry as it was read before: what that has counted is not taken over.
    return this.#put({ ...present, ...definitionOf(definition), ...next })
  }

  remove({ name, seq }: CronState): void {
    this.#draft.putSide(ENTRIES, name, null)
    this.#draft.putSide(TEMPLATES, name, null)
    const text = `DELETE FROM ${this.#schema}.cron_runs WHERE entry = $1`
    this.#draft.changes.store({ text, values: [seq] })
  }

  live({ seq }: Pick<CronState, 'seq'>, limit: number): string[] {
    const { rows } = this.#draft.changes
    const own = this.#draft.changes.jobsOf(seq)
    // As many more as those that the group may have changed.
    const found = this.#draft.ask(liveJobs(this.#schema, seq, limit + own.length))
    const unchanged = found.map(({ id }) => String(id)).filter((id) => !rows.has(id))
    const changed = own.flatMap((id) => rows.get(id) ?? [])
    const live = changed.filter(({ cronEntry, endedAt }) => cronEntry === seq && endedAt === null)
    return [...unchanged, ...live.map(({ id }) => id)].slice(0, limit)
  }

  move(entry: CronState, next: Next): void {
    this.#change(entry, next)
  }

  ran(tick: CronTick, jobId: string): void {
    const job = this.#draft.row(jobId)
    if (job !== null) this.#draft.change(job, { cronEntry: tick.seq })
    const entry = entryOf(this, tick)
    if (entry === null) return
    const runCount = entry.runCount + 1
    this.#change(entry, { lastJobId: jobId, lastRunAt: tick.at, runCount })
  }

  note({ seq }: CronTick, { scheduledAt, isManual, jobId, reason }: NewRun): void {
    const runs = `${this.#schema}.cron_runs`
    const { changes } = this.#draft
    const text = `INSERT INTO ${runs} (entry, scheduled_at, is_manual, job_id, reason)
      VALUES ($1, $2, $3, $4, $5)`
    changes.store({ text, values: [seq, scheduledAt, isManual, jobId, reason] })
    const trim = `DELETE FROM ${runs} WHERE entry = $1 AND seq <= (
      SELECT seq FROM ${runs} WHERE entry = $1 ORDER BY seq DESC LIMIT 1 OFFSET ${KEPT_RUNS})`
    changes.store({ text: trim, values: [seq] })
  }

  /** A write whose id is taken fails, and is taken back. */
  admit({ job, now, isUnsettled }: Making): Inserted {
    const cause = { reason: 'cron' }
    return admitOne(this.#draft, job, { now, wall: this.#wall, cause, isUnsettled })
  }

  /** What was changed since it was read stays. */
  #change({ name }: CronState, change: Partial<CronState>): void {
    const state = this.state(name)
    if (state !== null) this.#draft.putSide(ENTRIES, name, toRow({ ...state, ...change }))
  }

  #put(entry: CronEntry): CronEntry {
    const { template, ...state } = entry
    this.#draft.putSide(ENTRIES, entry.name, toRow(state))
    this.#draft.putSide(TEMPLATES, entry.name, {
      template: JSON.stringify(template),
      queue: template.options?.queue ?? template.queue ?? 'default',
    })
    return entry
  }
}

/** See `CronLedger.reset`. */
export function resetEntry(book: CronBook, tick: CronTick, nextRunAt: number): void {
  const entry = entryOf(book, tick)
  if (entry?.nextRunAt === tick.at) book.move(entry, { nextRunAt, queued: entry.queued })
}
