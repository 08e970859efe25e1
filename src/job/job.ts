/** The types of the whole gateway: states, new jobs, rows. */
import type { Concurrency } from './concurrency.ts'

/*
 * Their words:
 *
 * - **Ledger**: the store that holds the truth about every job.
 * - **Job message**: the AMQP message that makes a job deliverable; it carries the whole envelope.
 * - **Lease**: the reservation of an active job. Its **holder** is `gateway` (the delivery is held
 *   here), `ledger` (the delivery was acknowledged early; the ledger alone holds the lease) or
 *   `native` (a native AMQP worker has the delivery). An available job with the holder `ledger` is held back
 *   by its concurrency key (`isHeldByKey`).
 * - **Generation**: which life of the job; 0, and +1 each time its id is used for a new life (an operator
 *   has retried the job, an erased id is used again).
 * - **Outbox**: a nonce that says "this job needs a job message in the broker and no confirm has been
 *   seen for it yet".
 *
 * All instants in a row are milliseconds since the Unix epoch; `null` means "not yet" or "none".
 */

export const JOB_STATES = [
  'available',
  'scheduled',
  'pending',
  'active',
  'retryable',
  'completed',
  'cancelled',
  'discarded',
] as const

/** The eight states of OJS (seed 001 §7). */
export type JobState = (typeof JOB_STATES)[number]

/** `withdrawn`: the job is erased, by a withdrawn PUSH or otherwise: see `isErased`. */
export type RowState = JobState | 'withdrawn'

export type Holder = 'gateway' | 'ledger' | 'native'

/** A job as a producer asked for it: validated, defaults filled in, not yet stored. */
export interface NewJob {
  id: string
  type: string
  queue: string
  /** Exact OJS priority, −100…100; the AMQP property is a clamped copy. */
  priority: number
  maxAttempts: number
  /** The job's own lease length, or null when the producer named none. */
  visibilityTimeoutMs: number | null
  /** Execution timeout per attempt; 0 = no limit. */
  timeoutMs: number
  expiresAt: number | null
  createdAt: number
  /** When a native job was published, if its message says so. */
  enqueuedAt?: number
  /**
   * The AMQP body and the stored document in one: a JSON object text in the form of seed 003 with
   * the exact `_ms` values and every unknown member kept, and without any member that changes
   * during the life of the job.
   */
  envelope: string
  carry: Carry | null
  /**
   * When the job becomes claimable: at once, at an instant of the wall clock (`dueAt`), or after ACTIVATE.
   * The activation of a `pending` job with a `dueAt` schedules it (ojs-choices C-95).
   */
  start:
    | { state: 'available' }
    | { state: 'scheduled'; dueAt: number }
    | { state: 'pending'; dueAt: number | null }
  /** Null for a job without a `unique` policy. */
  unique: Unique | null
}

/** What happens to a new job whose unique key is taken (OJS unique jobs). */
export type OnConflict = 'reject' | 'ignore' | 'replace' | 'replace_except_schedule'

/** A job's `unique` policy, with its key. */
export interface Unique {
  /** SHA-256 in hexadecimal. */
  key: string
  /** An existing job with the same key is a duplicate if it is in one of these states … */
  states: readonly JobState[]
  /** … and was created less than this many milliseconds ago; null: whenever it was created. */
  periodMs: number | null
  onConflict: OnConflict
}

/**
 * Headers and properties of a job message, which every republish must carry again, and what else is known of
 * the job beside its envelope.
 */
export interface Carry {
  /** W3C `traceparent` → `x-ojs-trace-id` (seed 002 §12.2). */
  traceparent?: string
  /** W3C `tracestate` → `x-ojs-trace-state`. */
  tracestate?: string
  correlationId?: string
  /** `Idempotency-Key` → `x-ojs-idempotency-key`. */
  idempotencyKey?: string
  tags?: readonly string[]
  scheduledAt?: string
  /** Headers of a natively published job message that are neither the broker's nor OJS's own. */
  headers?: Record<string, unknown>
  /** Properties of a natively published job message that OJS does not define itself. */
  properties?: { appId?: string; replyTo?: string }
  /** The job's concurrency key and limit. */
  concurrency?: Concurrency
  /** How long its result is kept, if not as long as the job. 0: not at all. */
  resultTtlMs?: number
  /** The id of the job that this one was made from, as a copy. */
  copyOf?: string
  /** The id of the copy by which this dead letter was retried, with changes. */
  retriedAs?: string
}

/** From where the next attempt of a job can go on. */
export interface Checkpoint {
  /** JSON text. */
  state: string
  /** 1 for the first, then 1 more each time; begins again after a deletion. */
  sequence: number
  createdAt: number
}

/** One row of the ledger. */
export interface JobRow extends Omit<NewJob, 'start' | 'unique'> {
  generation: number
  state: RowState
  /** 0 at enqueue, +1 at each claim. */
  attempt: number
  outbox: number | null
  /**
   * True while a message of this job may be in RabbitMQ or with a consumer. Such a row is never pruned, or
   * its message would be adopted as a new job. It is false only if no message was published, or the message
   * surely never reached a queue, or the gateway has settled it (as holder `ledger` implies), or the native
   * worker that reported the end of the job settles it, or its queue is gone.
   */
  messageOut: boolean
  holder: Holder | null
  /**
   * The worker that runs the job or ran it last. A row that waits has one only as a mark that its last job
   * message is gone (`isOwedAgain`): the worker that gave the job back without its message, or, if the
   * message was lost with its queue, whichever name was there, else ''.
   */
  workerId: string | null
  leaseMs: number | null
  leaseExpiresAt: number | null
  timeoutAt: number | null
  /**
   * When a `scheduled` (wall time) or `retryable` (clock time) job becomes claimable; for a
   * `pending` one, when it may run once it is activated.
   */
  dueAt: number | null
  /**
   * Where the job message waits until the job is due, or is to be published to: the delay of a retry's TTL
   * queue, or `IN_EXCHANGE`. Null: it waits in neither; if the job has yet to become due, the ledger holds it
   * (`isHeldByLedger`). Stays set after the job became available by its due time, until the message arrives.
   */
  retryQueueMs: number | null
  /** The delay chosen for the last retry; kept so that the next FETCH shows it (ojs-choices S6). */
  retryDelayMs: number | null
  activatedAt: number | null
  /** Discarded, and listed as a dead letter. */
  isDeadLetter: boolean
  enqueuedAt: number
  startedAt: number | null
  completedAt: number | null
  cancelledAt: number | null
  discardedAt: number | null
  /** JSON texts, spliced into answers as they are. */
  result: string | null
  error: string | null
  errors: string | null
  /** A discarded job's copy in `ojs.queue.dlx.{q}` has been made. */
  deadLetterCopied: boolean
  /** Only in the row that `claim` returns, if there is one. */
  checkpoint?: Checkpoint
}

/** A row without the members that may be megabytes. */
export type JobStanding = Omit<
  JobRow,
  'carry' | 'error' | 'errors' | 'result' | 'envelope' | 'checkpoint'
>

const TERMINAL_STATES: ReadonlySet<RowState> = new Set<RowState>([
  'completed',
  'cancelled',
  'discarded',
  'withdrawn',
])

/** True for a state that only the retry by an operator can leave (OJS core), and for `withdrawn`. */
export function isTerminal(state: RowState): boolean {
  return TERMINAL_STATES.has(state)
}

/**
 * True for an erased job: a PUSH that was refused after its insert, a deleted dead letter, or a discarded job
 * that retention pruned and whose dead letter copy may still be in RabbitMQ. Its row has lost the texts, but
 * keeps id, queue, generation and attempt, by which late job messages and copies are recognised. For clients
 * there is no such job: it is not shown, is in no count, and its id may be used again.
 */
export function isErased(state: RowState): state is 'withdrawn' {
  return state === 'withdrawn'
}

/** True when the job was cancelled, and its message may still come; also of a row that was erased since. */
export function isCancelledMessageOut({
  cancelledAt,
  messageOut,
}: Pick<JobRow, 'cancelledAt' | 'messageOut'>): boolean {
  return cancelledAt !== null && messageOut
}

/** True when `expires_at` has passed: the job must not run any more. */
export function isExpired({ expiresAt }: Pick<JobRow, 'expiresAt'>, wall: number): boolean {
  return expiresAt !== null && expiresAt <= wall
}

export function isLeaseLive({ leaseExpiresAt }: Pick<JobRow, 'leaseExpiresAt'>, now: number) {
  return leaseExpiresAt !== null && leaseExpiresAt > now
}

/**
 * A `retryQueueMs` that is no delay: the scheduled job's message is in the exchange of RabbitMQ's delay
 * plugin.
 */
export const IN_EXCHANGE = 0

type Delayed = Pick<JobRow, 'state' | 'retryQueueMs'>

/** True when the job waits for its due time and, by the ledger's books, its job message waits in RabbitMQ. */
export function isHeldByBroker({ state, retryQueueMs }: Delayed): boolean {
  return retryQueueMs !== null && (state === 'retryable' || state === 'scheduled')
}

/**
 * True when the job waits for its due time and its next job message does not exist: it is published when due.
 */
export function isHeldByLedger({ state, retryQueueMs }: Delayed): boolean {
  return retryQueueMs === null && (state === 'retryable' || state === 'scheduled')
}

/** How often the job may run: `max_attempts` 0 and 1 both mean "run once" (OJS retry). */
export function allowedAttempts({ maxAttempts }: Pick<JobRow, 'maxAttempts'>): number {
  return Math.max(1, maxAttempts)
}

/** Makes the row of a job that was just enqueued. */
export function freshRow(
  job: NewJob,
  stored: { generation: number; outbox: number | null; enqueuedAt: number; isHeld?: boolean },
): JobRow {
  // Member by member: a spread costs a tenth of a whole PUSH here.
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    maxAttempts: job.maxAttempts,
    visibilityTimeoutMs: job.visibilityTimeoutMs,
    timeoutMs: job.timeoutMs,
    expiresAt: job.expiresAt,
    createdAt: job.createdAt,
    envelope: job.envelope,
    carry: job.carry,
    generation: stored.generation,
    state: job.start.state,
    attempt: 0,
    outbox: stored.outbox,
    messageOut: stored.outbox !== null,
    holder: stored.isHeld ? 'ledger' : null,
    workerId: null,
    leaseMs: null,
    leaseExpiresAt: null,
    timeoutAt: null,
    dueAt: job.start.state === 'available' ? null : job.start.dueAt,
    retryQueueMs: null,
    retryDelayMs: null,
    activatedAt: null,
    isDeadLetter: false,
    enqueuedAt: stored.enqueuedAt,
    startedAt: null,
    completedAt: null,
    cancelledAt: null,
    discardedAt: null,
    result: null,
    error: null,
    errors: null,
    deadLetterCopied: false,
  }
}

/**
 * Only what a standing has, of a row that may have more. Member by member, as in `freshRow`: V8 keeps what rest and
 * spread make as a dictionary.
 */
export function standingOf(row: JobStanding): JobStanding {
  return {
    id: row.id,
    type: row.type,
    queue: row.queue,
    priority: row.priority,
    maxAttempts: row.maxAttempts,
    visibilityTimeoutMs: row.visibilityTimeoutMs,
    timeoutMs: row.timeoutMs,
    expiresAt: row.expiresAt,
    createdAt: row.createdAt,
    generation: row.generation,
    state: row.state,
    attempt: row.attempt,
    outbox: row.outbox,
    messageOut: row.messageOut,
    holder: row.holder,
    workerId: row.workerId,
    leaseMs: row.leaseMs,
    leaseExpiresAt: row.leaseExpiresAt,
    timeoutAt: row.timeoutAt,
    dueAt: row.dueAt,
    retryQueueMs: row.retryQueueMs,
    retryDelayMs: row.retryDelayMs,
    activatedAt: row.activatedAt,
    isDeadLetter: row.isDeadLetter,
    enqueuedAt: row.enqueuedAt,
    startedAt: row.startedAt,
    completedAt: row.completedAt,
    cancelledAt: row.cancelledAt,
    discardedAt: row.discardedAt,
    deadLetterCopied: row.deadLetterCopied,
  }
}

/** A message that a row owed when it was read; the row may have changed since. */
export interface OwedMessage extends Pick<JobRow, 'id' | 'queue' | 'state'> {
  outbox: number
  /** Size of the envelope, which is in memory while the message is published. */
  bytes: number
}
