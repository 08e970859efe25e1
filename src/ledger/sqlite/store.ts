import type { JobRow, NewJob } from '../../job/job.ts'
import type { QueueRecord, Rung } from '../ledger.ts'
import type { MovedDebts } from './moved-debts.ts'
import type { OutboxNonces } from './outbox-nonces.ts'
import type { PauseStates } from './pauses.ts'
import type { Register } from './register.ts'
import { type RawRow, toJobRow } from './rows.ts'
import type { StaleCopies } from './stale-copies.ts'
import type { StateCounter } from './state-counter.ts'
import type { NewRow, Statements } from './statements.ts'
import type { Tombstones } from './tombstones.ts'
import type { TrafficMinutes } from './traffic.ts'
import type { WorkflowBook } from './workflow-book.ts'

/** What a write works with: the prepared statements, and the state that is kept in memory beside the rows. */
export interface Store {
  readonly statements: Statements
  readonly counter: StateCounter
  readonly queues: Register<QueueRecord>
  readonly nonces: OutboxNonces
  readonly rungs: Register<Rung>
  readonly stale: StaleCopies
  readonly tombstones: Tombstones
  readonly pauses: PauseStates
  readonly traffic: TrafficMinutes
  readonly workflows: WorkflowBook
  /** Nonces that RabbitMQ has confirmed, until the commit that clears them from their rows. */
  readonly confirming: Set<number>
  readonly moved: MovedDebts
  /** Wall time, ms: the job of a step that begins may be scheduled, and the holder of a unique key expired. */
  wall(): number
  /** Where retention goes on, for each kind of ended rows: the `ended_at` from which the next batch looks. */
  readonly pruned: Map<object, number>
}

interface FirstLife {
  now: number
  enqueuedAt: number
  generation: number
  attempt: number
  outbox: number | null
}

/**
 * Stores a job in its start state, and records its queue. Returns the generation, or null when the id is
 * taken. Two statements instead of one upsert: RETURNING would make it a third more expensive, and an id is
 * hardly ever used again.
 */
export function insertJob(store: Store, job: NewJob, life: FirstLife): number | null {
  // Workers drop generation 0 of an id that was cancelled before its job was known; this is another job.
  const first = store.tombstones.forget(job.id) ? life.generation + 1 : life.generation
  const values: NewRow = [
    job.id,
    job.type,
    job.queue,
    job.priority,
    job.maxAttempts,
    job.visibilityTimeoutMs,
    job.timeoutMs,
    job.expiresAt,
    job.createdAt,
    job.carry === null ? null : JSON.stringify(job.carry),
    job.envelope,
    life.enqueuedAt,
    first,
    life.attempt,
    life.outbox,
    job.start.state,
    job.start.state === 'available' ? null : job.start.dueAt,
    job.unique === null ? null : job.unique.key,
  ]
  const isNew = store.statements.insert.run(...values).changes === 1
  const generation = isNew ? first : generationAgain(store, values)
  if (generation === null) return null
  store.queues.record({ name: job.queue, createdAt: life.now })
  store.counter.moved(job.queue, null, job.start.state)
  return generation
}

function generationAgain(store: Store, values: NewRow): number | null {
  return store.statements.insertAgain.get(...values)?.generation ?? null
}

/** Is this process the one that was to publish the row's token, and has it seen no confirm? */
export function isTokenOwed(
  { nonces, confirming }: Store,
  { outbox }: Pick<JobRow, 'outbox'>,
): boolean {
  return outbox !== null && nonces.isOurs(outbox) && !confirming.has(outbox)
}

/** The row that a statement changed or read. Throws if there is none: the transaction has just read it. */
export function changed(raw: RawRow | undefined): JobRow {
  const row = toJobRow(raw)
  if (!row) throw new Error('a row changed inside its own transaction')
  return row
}
