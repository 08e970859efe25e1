/**
 * The vocabulary of the whole gateway.
 *
 * - **Ledger**: the store that holds the truth about every job.
 * - **Token**: the AMQP message that makes a job deliverable; it carries the whole envelope.
 * - **Lease**: the reservation of an active job. Its **holder** is `gateway` (the delivery is held
 *   here), `ledger` (the delivery was acknowledged early; the ledger alone holds the lease) or
 *   `native` (a native AMQP worker has the delivery).
 * - **Generation**: which life of the job; 0, and +1 each time its id starts over.
 * - **Outbox**: a nonce that says "this job needs a token in the broker and no confirm has been
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

/** `withdrawn`: no job any more, and not only where a PUSH was withdrawn: see `isErased`. */
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
  /** The job's own reservation length, or null when the producer named none. */
  visibilityTimeoutMs: number | null
  /** Execution timeout per attempt; 0 = no limit. */
  timeoutMs: number
  expiresAt: number | null
  createdAt: number
  /** Of a native job: when it was published, as far as it says so. */
  enqueuedAt?: number
  /**
   * The AMQP body and the stored document in one: a JSON object text in the form of seed 003 with
   * the exact `_ms` values and every unknown member kept, and without any member that changes
   * during the life of the job.
   */
  envelope: string
  carry: Carry | null
  /**
   * How it enters: claimable at once, at an instant of the wall clock (`dueAt`), or when somebody
   * activates it. A `pending` job with a `dueAt` is scheduled by its activation (ojs-digest C-95).
   */
  start:
    | { state: 'available' }
    | { state: 'scheduled'; dueAt: number }
    | { state: 'pending'; dueAt: number | null }
  /** Null for a job that may have any number of equals. */
  unique: Unique | null
}

/** What becomes of a job whose key is taken (ojs-digest §5.3). */
export type OnConflict = 'reject' | 'ignore' | 'replace' | 'replace_except_schedule'

/** A job's claim to be the only one with its key. */
export interface Unique {
  /** SHA-256 in hexadecimal. */
  key: string
  /** A job with the same key that is in one of these is a duplicate … */
  states: readonly JobState[]
  /** … if it was created less than this ago; null: whenever it was created. Milliseconds. */
  periodMs: number | null
  onConflict: OnConflict
}

/** What travels with a token beside its body, and must survive every republish. */
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
  /** Headers of a natively published token that are neither the broker's nor OJS's own. */
  headers?: Record<string, unknown>
  /** Properties of a natively published token that OJS does not define itself. */
  properties?: { appId?: string; replyTo?: string }
}

/** One row of the ledger. */
export interface JobRow extends Omit<NewJob, 'start' | 'unique'> {
  generation: number
  state: RowState
  /** 0 at enqueue, +1 at each claim. */
  attempt: number
  outbox: number | null
  /**
   * A token of this job may still be in the broker, or with whoever it was delivered to. Such a row is
   * never pruned: its token would be adopted as a new job. So false needs a reason: none was published,
   * or it surely never reached a queue; it was settled here (holder `ledger` says just that), or is
   * settled by the native worker that has told of its end; or its queue is gone.
   */
  tokenOut: boolean
  holder: Holder | null
  /** Who runs it, or ran it last; of an `available` job who gave it back without its token. */
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
   * Where the token waits, or is owed to, until the job is due: the TTL queue of a retry (its delay), or
   * `IN_EXCHANGE`. Null: nowhere, the ledger holds the job. It stays when the job becomes available by
   * its time, until the token is seen.
   */
  rungMs: number | null
  /** The delay chosen for the last retry; stays for the next FETCH to tell (conformance.md S6). */
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
}

/** A row without what may be megabytes. */
export type JobStanding = Omit<JobRow, 'carry' | 'error' | 'errors' | 'result' | 'envelope'>

const TERMINAL_STATES: ReadonlySet<RowState> = new Set<RowState>([
  'completed',
  'cancelled',
  'discarded',
  'withdrawn',
])

/** No event leads out of it but the retry of a dead letter (ojs-digest §1.2). `withdrawn` counts too. */
export function isTerminal(state: RowState): boolean {
  return TERMINAL_STATES.has(state)
}

/**
 * Nothing is left of it but its id and its numbers, by which late tokens and copies are known for what
 * they are: a PUSH that was refused after its insert, a dead letter that was deleted, or a discarded job
 * that retention has pruned, whose copy may be in RabbitMQ still. To everybody else there is no such
 * job: it is not shown, is in no count, and its id may be used again.
 */
export function isErased(state: RowState): state is 'withdrawn' {
  return state === 'withdrawn'
}

/** `expires_at` has passed: the job is not to run any more. */
export function isExpired({ expiresAt }: Pick<JobRow, 'expiresAt'>, wall: number): boolean {
  return expiresAt !== null && expiresAt <= wall
}

/** In place of a delay: the token of a schedule is with the exchange of RabbitMQ's delay plugin. */
export const IN_EXCHANGE = 0

type Delayed = Pick<JobRow, 'state' | 'rungMs'>

/** It waits for its time, and its token in RabbitMQ with it, by our books. */
export function isHeldByBroker({ state, rungMs }: Delayed): boolean {
  return rungMs !== null && (state === 'retryable' || state === 'scheduled')
}

/** It waits for its time without a token: one is made when it is due. */
export function isHeldByLedger({ state, rungMs }: Delayed): boolean {
  return rungMs === null && (state === 'retryable' || state === 'scheduled')
}

/** How often it may run: `max_attempts` 0 and 1 both mean "run once" (ojs-digest §3.1). */
export function allowedAttempts({ maxAttempts }: Pick<JobRow, 'maxAttempts'>): number {
  return Math.max(1, maxAttempts)
}

/** The row of a job that was just enqueued. */
export function freshRow(
  job: NewJob,
  stored: { generation: number; outbox: number | null; enqueuedAt: number },
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
    tokenOut: stored.outbox !== null,
    holder: null,
    workerId: null,
    leaseMs: null,
    leaseExpiresAt: null,
    timeoutAt: null,
    dueAt: job.start.state === 'available' ? null : job.start.dueAt,
    rungMs: null,
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

/** A message that a row owes, and where it goes to. The row itself may have moved on since. */
export interface OwedMessage extends Pick<JobRow, 'id' | 'queue' | 'state'> {
  outbox: number
  /** Of the envelope, which whoever sends it has in memory. */
  bytes: number
}
