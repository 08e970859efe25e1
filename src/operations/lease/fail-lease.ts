/** A failed attempt, whoever found it: retry by queue or ledger, or discard, by the job's policy. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isHeldByKey } from '../../job/concurrency.ts'
import type { Cause } from '../../job/history/changes.ts'
import { allowedAttempts, type JobRow } from '../../job/job.ts'
import { type ChosenDelay, chooseDelay } from '../../job/retry/backoff.ts'
import type { Failure } from '../../job/retry/error-history.ts'
import { recordEnd } from '../../job/retry/failure.ts'
import { judge, retryPolicyOf } from '../../job/retry/retry-policy.ts'
import { isStale, type Stale } from '../../job/stale.ts'
import type {
  DecideFailure,
  FailedLease,
  FailureChange,
  SettleFence,
  Undecided,
} from '../../ledger/leases.ts'
import { noteRetryDecision } from '../../telemetry/tracing.ts'
import type { Deps } from '../deps.ts'
import { followNews } from '../job-end.ts'
import {
  deadLetterDelivery,
  noteEnded,
  noteLeftOver,
  sendThenSettle,
  settleLease,
  takeLease,
} from './lease-end.ts'

/**
 * A NACK waits no longer than this for RabbitMQ to declare a retry queue; without one the ledger holds the
 * job.
 */
const RETRY_QUEUE_WAIT_MS = 1_000

/** What is wrong with an attempt. */
export interface Fault {
  failure: Failure
  cause?: Cause
  /**
   * The worker is gone or silent. That says nothing about the job, so it is available again at once while an
   * attempt is left. A native worker may still run it, or have finished: its report or its job message will tell.
   */
  isLost?: boolean
}

/** Finds what is wrong with the attempt of a row; null: nothing. Runs inside a write, and is pure. */
export type FindFault = (row: JobRow) => Fault | null

/** The failure of an attempt by the word of its worker, or of an operator. */
export interface FailedAttempt {
  id: string
  fence: SettleFence
  find: FindFault
  /** False: the ledger holds the retry if its queue is yet to be declared, which is only begun. */
  mayWait?: boolean
}

/**
 * FAIL (seed 001 §7.5, seed 002 §5.4, §5.5): `active → retryable`, `discarded` or `available`, decided by the row
 * as it is when it is written. Resolves after the commit. The publish and the ack follow in the background, in
 * the order of law 2; until the confirm the outbox owes the message. Returns `Stale` when the fence does not
 * match, or nothing is wrong with the attempt.
 */
export async function failLease(
  deps: Deps,
  { id, fence, find, mayWait = true }: FailedAttempt,
): Promise<JobRow | Stale> {
  const ruling = new Ruling(deps, find, mayWait)
  const done = await deps.ledger.fail(id, fence, ruling.decide())
  return isStale(done) ? done : await ruling.conclude(done)
}

/** Decides about failed attempts inside a write, and does what follows from its commit. */
export class Ruling {
  readonly #deps: Deps
  readonly #find: FindFault
  /** Drawn before the write, so that it may run twice and decides the same. */
  readonly #drawn: readonly [number, number]
  readonly #mayWait: boolean

  constructor(deps: Deps, find: FindFault, mayWait = true) {
    this.#deps = deps
    this.#find = find
    this.#mayWait = mayWait
    this.#drawn = [deps.random(), deps.random()]
  }

  /** Pure. Decides nothing yet about a retry whose retry queue is yet to be declared, if there is time for that. */
  decide(mayWait = this.#mayWait): DecideFailure {
    const now = this.#deps.clock.now()
    return (row) => {
      const fault = this.#find(row)
      return fault && this.#changeOf(row, fault, now, mayWait)
    }
  }

  #changeOf(row: JobRow, fault: Fault, now: number, mayWait: boolean): FailureChange | null {
    const { failure, cause } = fault
    const record = { now, cause, ...recordEnd(row, failure, now) }
    if (goesOn(row, fault)) return { ...record, to: 'available' }
    const verdict = judge(retryPolicyOf(row), row.attempt, failure)
    // `nack` makes the copy in the DLX queue. If the nack is lost with its channel, RabbitMQ delivers the
    // job message again and the arrival table nacks it then. Where the lease's holder is `ledger`, there is no
    // delivery to nack: the ledger writes an outbox nonce instead, and the copy is published.
    if (verdict.do === 'discard') {
      return { ...record, to: 'discarded', isDeadLetter: verdict.isDeadLetter, copy: 'nack' }
    }
    const { delayMs, retryQueueMs: wanted } = this.#delayOf(row)
    const retryQueueMs = this.#isReady(row.queue, wanted) ? wanted : null
    const isUp = this.#deps.broker.status().state === 'up'
    if (retryQueueMs !== wanted && mayWait && isUp) return null
    const isMessageBack = this.#deps.jobMessages.held.get(row.id)?.isLive() ?? false
    const dueAt = now + delayMs
    return { ...record, to: 'retryable', dueAt, delayMs, retryQueueMs, isMessageBack }
  }

  #delayOf(row: JobRow): ChosenDelay {
    const drawn = this.#drawn.values()
    const { backoff } = retryPolicyOf(row)
    const chosen = chooseDelay(backoff, row.attempt, () => drawn.next().value ?? 0)
    // Out of a TTL queue the message would come whether or not its key has a place by then.
    return row.carry?.concurrency === undefined ? chosen : { ...chosen, retryQueueMs: null }
  }

  #isReady(queue: string, retryQueueMs: number | null): boolean {
    return retryQueueMs === null || this.#deps.broker.isRetryQueueReady(queue, retryQueueMs)
  }

  /** What follows from the write; the rest of it, if the retry queue was yet to be declared. */
  async conclude(done: FailedLease | Undecided): Promise<JobRow | Stale> {
    return done.outcome === 'ended' ? this.#follow(done) : await this.#whenReady(done)
  }

  /** Declares the retry queue that `row` needs, and decides then, with it or without it. */
  async #whenReady({ row }: Undecided): Promise<JobRow | Stale> {
    if (this.#find(row) === null) return { outcome: 'stale', row }
    const declared = this.#ensure(row.queue, this.#delayOf(row).retryQueueMs)
    await Promise.race([declared, sleep(RETRY_QUEUE_WAIT_MS, undefined, { ref: false })])
    const decide = this.decide(false)
    // The lease may have passed to another worker meanwhile, with the same attempt if it was given back.
    const isSame = ({ startedAt, workerId }: JobRow) =>
      startedAt === row.startedAt && workerId === row.workerId
    const done = await this.#deps.ledger.fail(row.id, row, (now) =>
      isSame(now) ? decide(now) : null,
    )
    if (done.outcome === 'undecided') return { outcome: 'stale', row: done.row }
    return isStale(done) ? done : this.#follow(done)
  }

  /** What follows from the commit, in the background. Returns the job. */
  #follow({ job, before, change, news }: FailedLease): JobRow {
    if (news !== undefined) followNews(this.#deps, news)
    const fault = this.#find(before)
    const requestId = fault?.cause?.requestId
    if (fault && !change.isCounted) {
      const { failure } = fault
      const failed = { type: 'job.failed', attempt: before.attempt, failure } as const
      this.#deps.events.emit({ ...failed, job, requestId })
    }
    if (change.to === 'available') returned(this.#deps, job)
    else if (change.to === 'discarded') discarded(this.#deps, job, before, requestId)
    else if (fault) {
      noteRetryDecision(before, 'retry')
      this.#deps.events.emit({ type: 'job.retrying', job, failure: fault.failure, requestId })
      this.#retry(job, before)
    }
    noteEnded(this.#deps, before)
    return job
  }

  /** By the TTL queue of the delay (seed 002 §8), or by the ledger where there is no such queue. */
  #retry(job: JobRow, before: JobRow): void {
    const deps = this.#deps
    if (job.retryQueueMs !== null) void sendThenSettle(deps, job, takeLease(deps, job.id))
    else if (!settleLease(deps, job.id)) noteLeftOver(deps, job)
    const wanted = this.#delayOf(before).retryQueueMs
    if (!this.#isReady(job.queue, wanted) && !this.#mayWait) void this.#ensure(job.queue, wanted)
  }

  async #ensure(queue: string, retryQueueMs: number | null): Promise<void> {
    const { broker } = this.#deps
    if (retryQueueMs === null || broker.status().state !== 'up') return
    await broker.ensureRetryQueue(queue, retryQueueMs)
  }
}

/** The attempt ended without a word of its worker, and the job may go on. */
function goesOn(row: JobRow, { isLost }: Fault): boolean {
  return isLost === true && (row.holder === 'native' || row.attempt < allowedAttempts(row))
}

/**
 * The job is available at once, without a delay (seed 001 §7.6). Publishes nothing for a native worker's lease:
 * RabbitMQ redelivers its job message when its channel ends.
 */
function returned(deps: Deps, job: JobRow): void {
  deps.events.emit({ type: 'job.enqueued', job, promoted: true, from: 'active' })
  if (job.outbox !== null || isHeldByKey(job)) {
    void sendThenSettle(deps, job, takeLease(deps, job.id))
  }
}

function discarded(deps: Deps, job: JobRow, before: JobRow, requestId: string | undefined): void {
  noteRetryDecision(before, 'discard')
  deps.events.emit({ type: 'job.discarded', job, requestId })
  const delivery = takeLease(deps, job.id)
  if (job.outbox !== null) void sendThenSettle(deps, job, delivery)
  else if (delivery) deadLetterDelivery(deps, delivery, job)
}
