import type { ArrivingToken, ReportedError } from '../job/arrival.ts'
import type { JobRow, JobState, NewJob } from '../job/job.ts'

/**
 * The ledger's contract (architecture §7). Every write is fenced: it names the state (and attempt,
 * generation, worker) that it expects, and "zero rows changed" is an outcome, not an error.
 *
 * Writes of one event-loop turn share one transaction and one sync (group commit). A write's
 * promise settles after that commit, never before. When the commit fails, every write of the group
 * rejects with `OjsError('backend_error')`, status 503, and nothing of the group is stored.
 *
 * Reads are synchronous and see committed rows only.
 */
export interface Ledger {
  /**
   * PUSH: stores the job as `available`, attempt 0, with a fresh outbox nonce.
   * Fence: no row with this id, or a `withdrawn` one (then generation + 1).
   */
  insert(job: NewJob, now: number): Promise<Inserted>

  /**
   * The broker has confirmed the token that was published for `outbox`. Lazy: rides on the next
   * group commit (a few milliseconds at most) and nobody waits for it.
   * Fence: the row still carries this nonce.
   */
  confirmed(id: string, outbox: number): void

  /**
   * PUSH was refused after its insert: the row becomes invisible (`withdrawn`).
   * Fence: `available`, attempt 0, same nonce. False: somebody has the job already.
   */
  withdraw(id: string, outbox: number): Promise<boolean>

  /**
   * FETCH: decides every token by the arrival table and claims, in one transaction.
   * Results are in the order of `tokens`. Fence: the arrival table (`job/arrival.ts`).
   */
  claim(tokens: readonly ClaimToken[], terms: ClaimTerms): Promise<ClaimResult[]>

  /**
   * The HTTP client of a FETCH was gone before its answer: `active → available`, attempt − 1.
   * A row whose holder is `ledger` has no token any more and gets a new outbox nonce.
   * Fence: `active`, this attempt and generation.
   */
  release(id: string, fence: LeaseFence): Promise<JobRow | 'stale'>

  /** ACK: `active → completed`. Fence: `active`, and `attempt` and `workerId` where given. */
  complete(id: string, fence: SettleFence, change: Completion): Promise<JobRow | 'stale'>

  /** CANCEL: any non-terminal state → `cancelled`. Fence: not terminal. */
  cancel(id: string, now: number): Promise<Cancelled | 'stale'>

  /**
   * The delivery behind a lease is (about to be) acknowledged early: holder := `ledger`.
   * Fence: `active`, holder `gateway`. Returns how many rows changed. No list: all of them.
   */
  handOver(leases?: readonly LeaseFence[]): Promise<number>

  /**
   * The queue is gone from the broker with every token in it: a new outbox nonce for each
   * `available` row of the queue whose holder is not native, in order of arrival. Returns how
   * many. A long queue takes several commits; when one fails, the call rejects and may be repeated.
   * Rows that are over stop waiting for a token that was in the queue (`tokenOut`).
   */
  rearm(queue: string): Promise<number>

  /**
   * A token of a terminal row has come back and was settled, or never reached a queue (a withdrawn
   * row whose publish was nacked or returned): the row may be pruned. Lazy.
   */
  tokenReturned(id: string, generation: number): void

  /** The copy of a discarded job in the DLX queue has been made (lazy). */
  deadLetterCopied(id: string, generation: number): void

  /**
   * Time in which nobody could renew does not count: every lease ends at `now` + its own length
   * at the earliest. Returns how many were extended.
   */
  extendLeases(now: number): Promise<number>

  /** Rows that owe a token, oldest nonce first, from nonces greater than `after`. By index. */
  outboxPage(after: number, limit: number): JobRow[]

  /** How many rows owe a token, counted up to `atMost`. By index. */
  owedTokens(atMost: number): number

  /** By primary key. `withdrawn` rows are returned too; operations hide them. */
  find(id: string): JobRow | null

  /** Kept, not counted: O(1) at any number of rows. */
  counts(queue: string): StateCounts

  /** Every queue that was ever recorded, oldest first. From memory. */
  queues(): readonly QueueRecord[]

  /** Remembers the queue; no effect when it is known. */
  recordQueue(name: string, now: number): Promise<void>

  /** Null while writes succeed; else why the last group failed. */
  fault(): string | null

  /** Commits what is waiting and closes. Idempotent. */
  close(): Promise<void>
}

export type Inserted =
  | { outcome: 'inserted'; generation: number; outbox: number; enqueuedAt: number }
  | { outcome: 'duplicate' }

export interface LeaseFence {
  id: string
  generation: number
  attempt: number
}

export interface SettleFence {
  attempt?: number
  workerId?: string
}

export interface Completion {
  now: number
  /** JSON text, or null when the handler returned nothing. */
  result: string | null
}

export interface Cancelled {
  job: JobRow
  previousState: JobState
}

export interface ClaimToken extends ArrivingToken {
  id: string
  /** True when exactly this delivery is held for a lease. */
  isHeldDelivery: boolean
  /** `x-ojs-error-code` and `-message`, where the token carries them. */
  reportedError?: ReportedError
  /** Called when the id is unknown. Throws `OjsError` when the body is not an OJS job. */
  adopt(): NewJob
}

export interface ClaimTerms {
  now: number
  /** Wall time, for `expires_at`. */
  wall: number
  workerId: string | null
  /** Explicit in FETCH; beats the job's own. Milliseconds. */
  leaseMs: number | null
  /** When neither FETCH nor the job names one. */
  defaultLeaseMs: number
}

export type ClaimResult =
  | { verdict: 'claimed'; job: JobRow; adopted: boolean }
  /** `expire` and `exhaust` are committed as `discarded`; for `exhaust` the DLX copy is owed. */
  | { verdict: 'expired' | 'exhausted'; job: JobRow }
  | { verdict: 'drop' | 'keep' | 'hand-over' | 'dead-letter' | 'rearmed'; job: JobRow }
  | { verdict: 'hold'; job: JobRow; until: number | null }
  | { verdict: 'malformed'; error: Error }

export type StateCounts = Readonly<Record<JobState, number>>

export interface QueueRecord {
  name: string
  createdAt: number
}
