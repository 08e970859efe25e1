/** Recurring jobs, inside a write: registers entries, fires ticks. */
import { type CronDefinition, type CronEntry, definitionOf } from '../../job/cron/entry.ts'
import { freshRow } from '../../job/job.ts'
import type {
  CronRun,
  CronTick,
  DueEntry,
  Fired,
  Made,
  Making,
  Registered,
  RegisterTerms,
  RemovedEntry,
  StillDue,
  TickChange,
  Triggered,
} from '../cron.ts'
import type { Inserted } from '../enqueued.ts'
import type { Remembered } from '../idempotency.ts'

/** How many live jobs of an entry are returned as `runningIds`: one round of `cancel_previous`. */
export const LIVE_PAGE = 100

/** An entry without the text that may be large. */
export type CronState = Omit<CronEntry, 'template'>

export type NewRun = Pick<CronRun, 'scheduledAt' | 'isManual' | 'jobId' | 'reason'>

/** The entries and their jobs, as the write has left them. */
export interface CronBook {
  state(name: string): CronState | null
  find(name: string): CronEntry | null
  count(): number
  insert(definition: CronDefinition, first: Pick<CronEntry, 'nextRunAt' | 'createdAt'>): CronEntry
  /** In the same row. */
  replace(
    present: CronEntry,
    definition: CronDefinition,
    next: Pick<CronEntry, 'nextRunAt' | 'queued'>,
  ): CronEntry
  /** With its runs. */
  remove(present: CronState): void
  /** The first of its jobs that are not over, oldest first. */
  live(entry: Pick<CronState, 'seq'>, limit: number): string[]
  /** Sets its next time, and the queued ticks. */
  move(entry: CronState, next: Pick<CronEntry, 'nextRunAt' | 'queued'>): void
  /** The job is its last one, and counts. */
  ran(tick: CronTick, jobId: string): void
  /** Notes one of the newest runs. */
  note(tick: CronTick, run: NewRun): void
  admit(making: Making): Inserted
}

/** See `CronLedger.register`. */
export function register(
  book: CronBook,
  definition: CronDefinition,
  terms: RegisterTerms,
): Registered {
  const { nextRunAt, createdAt } = terms
  const present = book.find(definition.name)
  if (present !== null) {
    const { isReplacing } = terms
    return isReplacing ? replace(book, present, definition, terms) : { outcome: 'duplicate' }
  }
  if (book.count() >= terms.limit) return { outcome: 'full' }
  return { outcome: 'registered', entry: book.insert(definition, { nextRunAt, createdAt }) }
}

function replace(
  book: CronBook,
  present: CronEntry,
  definition: CronDefinition,
  terms: RegisterTerms,
): Registered {
  if (terms.basis && !isSame(present, terms.basis)) return { outcome: 'changed' }
  if (isDue(present, terms.createdAt)) return { outcome: 'due', entry: present }
  // If the clock was set back, the next time is the one after those that have their jobs already.
  const isTimeKept = hasSameTimes(present, definition) && present.nextRunAt !== null
  const entry = book.replace(present, definition, {
    nextRunAt: isTimeKept ? present.nextRunAt : terms.nextRunAt,
    queued: definition.isEnabled || terms.isKeepingQueued ? present.queued : [],
  })
  return { outcome: 'replaced', entry, before: present }
}

/** What is remembered of a registration. The `seq` tells the entry from a later one of the same name. */
export function registeredAnswer(registered: Registered): Omit<Remembered, 'fingerprint'> | null {
  const { outcome } = registered
  if (outcome !== 'registered' && outcome !== 'replaced') return null
  const { name, seq } = registered.entry
  return { ids: [name, String(seq)], existing: outcome === 'replaced' ? [0] : [] }
}

/** See `CronLedger.trigger`. */
export function trigger(book: CronBook, name: string, at: number, making: Making): Triggered {
  const entry = book.state(name)
  if (entry === null) return { outcome: 'missing' }
  return make(book, { name, seq: entry.seq, at }, making, true)
}

export function triggeredAnswer(made: Triggered): Omit<Remembered, 'fingerprint'> | null {
  return made.outcome === 'fired' ? { ids: [made.job.id], existing: [] } : null
}

/** See `CronLedger.remove`. */
export function remove(
  book: CronBook,
  name: string,
  wall: number,
): RemovedEntry | { outcome: 'missing' } | StillDue {
  const present = book.find(name)
  if (present === null) return { outcome: 'missing' }
  if (isDue(present, wall)) return { outcome: 'due', entry: present }
  book.remove(present)
  return { outcome: 'removed', entry: present }
}

/** See `CronLedger.fire`. */
export function fire(book: CronBook, tick: CronTick, change: TickChange): Fired {
  const entry = entryOf(book, tick)
  if (entry?.nextRunAt !== tick.at) return { outcome: 'stale' }
  const fired = verdict(book, entry, tick, change)
  if (fired.outcome === 'blocked' || fired.outcome === 'unsettled') return fired
  const { nextRunAt } = change
  const isQueued = fired.outcome === 'queued'
  book.move(entry, { nextRunAt, queued: isQueued ? [...entry.queued, tick.at] : entry.queued })
  const reason = reasonOf(fired, change.reason)
  if (reason !== null) noteSkipped(book, tick, reason)
  return fired
}

/** The overlap policy is asked first, then the `unique` policy of the job (OJS cron). */
function verdict(
  book: CronBook,
  entry: CronState,
  tick: CronTick,
  { job, maxQueued, ...rest }: TickChange,
): Fired {
  if (job === null) return { outcome: 'skipped' }
  const overlap = overlapOf(book, entry, { maxQueued, ...rest })
  return overlap === 'free' ? make(book, tick, { job, ...rest }) : overlap
}

/** What the overlap policy says about a tick, given the jobs of earlier ticks; `free`: make the job. */
function overlapOf(
  book: CronBook,
  entry: CronState,
  { maxQueued, isUnsettled }: Pick<TickChange, 'maxQueued' | 'isUnsettled'>,
): Fired | 'free' {
  if (entry.overlap === 'allow') return 'free'
  const runningIds = book.live(entry, LIVE_PAGE)
  if (runningIds.length === 0 && entry.queued.length === 0) return 'free'
  const { overlap, queued } = entry
  if (overlap === 'enqueue' && queued.length < maxQueued) return { outcome: 'queued' }
  if (runningIds.some((id) => isUnsettled(id))) return { outcome: 'unsettled' }
  if (overlap === 'cancel_previous') return { outcome: 'blocked', runningIds }
  // No job runs if only queued ticks are before this one.
  const runningId = runningIds[0] ?? entry.lastJobId
  return { outcome: overlap === 'skip' ? 'overlapped' : 'queue-full', runningId }
}

/** See `CronLedger.release`. */
export function release(
  book: CronBook,
  tick: CronTick,
  making: Making,
): Made | { outcome: 'stale' } {
  const entry = queuedAt(book, tick)
  if (!entry?.isEnabled || book.live(entry, 1).length > 0) return { outcome: 'stale' }
  const made = make(book, tick, making)
  if (made.outcome !== 'unsettled') forgetFirst(book, entry)
  return made
}

/** See `CronLedger.drop`. */
export function drop(book: CronBook, tick: CronTick, reason: string): boolean {
  const entry = queuedAt(book, tick)
  if (entry === null) return false
  forgetFirst(book, entry)
  noteSkipped(book, tick, reason)
  return true
}

function forgetFirst(book: CronBook, entry: CronState): void {
  book.move(entry, { nextRunAt: entry.nextRunAt, queued: entry.queued.slice(1) })
}

function make(book: CronBook, tick: CronTick, making: Making, isManual = false): Made {
  const { job } = making
  const admitted = book.admit(making)
  switch (admitted.outcome) {
    case 'inserted': {
      const { cancelled = [], job: placed = job } = admitted.replacing ?? {}
      book.ran(tick, job.id)
      book.note(tick, { scheduledAt: tick.at, jobId: job.id, reason: null, isManual })
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

function noteSkipped(book: CronBook, tick: CronTick, reason: string): void {
  book.note(tick, { scheduledAt: tick.at, jobId: null, reason, isManual: false })
}

function queuedAt(book: CronBook, tick: CronTick): CronState | null {
  const entry = entryOf(book, tick)
  return entry?.queued[0] === tick.at ? entry : null
}

/** Null: the entry is gone, or another entry has its name by now. */
export function entryOf(book: Pick<CronBook, 'state'>, { name, seq }: CronTick): CronState | null {
  const entry = book.state(name)
  return entry?.seq === seq ? entry : null
}

function isSame(present: CronDefinition, basis: CronDefinition): boolean {
  return JSON.stringify(definitionOf(present)) === JSON.stringify(definitionOf(basis))
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
