/** Attempts that begin, go on, and end without success or with it. */
import { allowedAttempts, type Holder, isExpired } from '../job.ts'
import { isHeld, type LeaseTold } from '../lease-fence.ts'
import { type Change, type KeptRow, NO_LEASE, recorded } from './row.ts'

/** `leaseMs`: from FETCH or the heartbeat; null: the job's own. */
export interface NewLease {
  now: number
  workerId: string | null
  leaseMs: number | null
  defaultLeaseMs: number
}

/**
 * The columns of a start. The holder has the job message, so it is out, and in no retry queue. A native worker
 * watches the execution timeout itself, so `timeoutAt` stays null for it.
 */
export function leased(
  row: KeptRow,
  holder: Exclude<Holder, 'ledger'>,
  { now, workerId, leaseMs, defaultLeaseMs }: NewLease,
): Change {
  const length = leaseMs ?? row.visibilityTimeoutMs ?? defaultLeaseMs
  const isTimed = holder === 'gateway' && row.timeoutMs > 0
  return {
    state: 'active',
    holder,
    workerId,
    outbox: null,
    messageOut: true,
    retryQueueMs: null,
    leaseMs: length,
    leaseExpiresAt: now + length,
    extendedMs: null,
    timeoutAt: isTimed ? now + row.timeoutMs : null,
    startedAt: now,
  }
}

/** Is this message that of the next attempt of an available job, and may that attempt begin? */
export function isNextAttempt(
  row: KeptRow,
  message: { queue?: string; generation: number; attempt: number },
  wall: number,
): boolean {
  return (
    row.state === 'available' &&
    row.generation === message.generation &&
    row.attempt === message.attempt - 1 &&
    message.attempt <= allowedAttempts(row) &&
    row.holder === null &&
    !isExpired(row, wall) &&
    (message.queue === undefined || message.queue === row.queue)
  )
}

/** An attempt of one generation, as a fence. */
interface AttemptFence {
  generation: number
  attempt: number
}

function isAttempt(row: KeptRow, { generation, attempt }: AttemptFence): boolean {
  return row.state === 'active' && row.generation === generation && row.attempt === attempt
}

/**
 * The job is given back. It owes a message unless the one that goes back (`messageAttempt`) counts for this
 * attempt. The worker stays noted when a message is owed (`isOwedAgain`).
 */
export function released(
  row: KeptRow,
  messageAttempt: number | null,
  nonce: number,
  line: string,
): Change {
  const isBack = row.holder === 'gateway' && messageAttempt === row.attempt
  return {
    state: 'available',
    attempt: row.attempt - 1,
    workerId: isBack ? null : row.workerId,
    outbox: isBack ? null : nonce,
    startedAt: null,
    holder: null,
    ...NO_LEASE,
    history: recorded(row, line),
  }
}

export function completed(
  row: KeptRow,
  fence: LeaseTold,
  { now, result }: { now: number; result: string | null },
  line: string,
): Change | null {
  if (!isHeld(row, fence)) return null
  return {
    state: 'completed',
    result,
    error: null,
    completedAt: now,
    endedAt: now,
    messageOut: row.holder === 'ledger' ? false : row.messageOut,
    outbox: null,
    holder: null,
    ...NO_LEASE,
    history: recorded(row, line),
  }
}

/** `leaseMs` null: the lease is as long as it was. */
export function extended(
  row: KeptRow,
  { now, leaseMs, ...fence }: LeaseTold & { now: number; leaseMs: number | null },
): Change | null {
  if (!isHeld(row, fence)) return null
  return lengthened(row, now, leaseMs)
}

/** The length holds for what extends the lease later, too. */
export function lengthened(row: KeptRow, now: number, leaseMs: number | null): Change {
  const extendedMs = leaseMs ?? row.extendedMs
  return { leaseExpiresAt: now + (extendedMs ?? row.leaseMs ?? 0), extendedMs }
}

/** What becomes of a job whose attempt failed, by FAIL or because its lease ran out. */
export type FailureFate =
  | {
      to: 'retryable'
      dueAt: number
      delayMs: number
      /** The job message goes to this retry queue (a fresh outbox nonce); null: the ledger holds the job. */
      retryQueueMs: number | null
      /** Matters when `retryQueueMs` is null: the old job message is (about to be) settled, so none is out. */
      isMessageBack: boolean
    }
  /**
   * The lease ran out: the next job message is owed (a fresh outbox nonce). If the holder is native when this is
   * written, no message is owed and `holder` stays: RabbitMQ still has the worker's delivery.
   */
  | { to: 'available' }
  | {
      to: 'discarded'
      isDeadLetter: boolean
      /**
       * What makes the copy in the DLX queue: a `nack` of the held delivery, or a `publish` by the relay (a fresh
       * outbox nonce). If the holder is the ledger when this is written, there is no delivery to nack, and the copy
       * is published in either case.
       */
      copy: 'nack' | 'publish'
    }

type Failed = { now: number; error: string | null; errors: string | null } & FailureFate

/**
 * An attempt ends without success. Decides by the holder at this moment whether a message is owed, because the
 * delivery may have been acknowledged since somebody read the row.
 */
export function failed(row: KeptRow, change: Failed, nonce: number, line: string): Change {
  const { error, errors } = change
  const record = { error, errors, ...NO_LEASE, history: recorded(row, line) }
  switch (change.to) {
    case 'retryable':
      return { ...record, ...retried(row, change, nonce) }
    case 'available':
      return { ...record, ...ranOut(row, nonce) }
    case 'discarded':
      return { ...record, ...gaveUp(row, change, nonce) }
  }
}

/** `retryQueueMs` null: the ledger holds the job. Only then does `isMessageBack` matter. */
function retried(
  row: KeptRow,
  { dueAt, delayMs, retryQueueMs, isMessageBack }: Failed & { to: 'retryable' },
  nonce: number,
): Change {
  const isGone = row.holder === 'ledger' || isMessageBack
  return {
    state: 'retryable',
    dueAt,
    retryDelayMs: delayMs,
    retryQueueMs,
    messageOut: retryQueueMs === null ? !isGone && row.messageOut : true,
    outbox: retryQueueMs === null ? null : nonce,
    holder: null,
    workerId: null,
    startedAt: null,
  }
}

/** A native holder still has the delivery: it stays the holder, and no new job message is owed. */
function ranOut({ holder, messageOut }: KeptRow, nonce: number): Change {
  const isWithNative = holder === 'native'
  return {
    state: 'available',
    outbox: isWithNative ? null : nonce,
    messageOut: isWithNative ? messageOut : true,
    holder: isWithNative ? 'native' : null,
    workerId: null,
    startedAt: null,
  }
}

/** Where the copy is published, there is no delivery to nack, so no job message is out. */
function gaveUp(
  { holder, messageOut }: KeptRow,
  { now, isDeadLetter, copy }: Failed & { to: 'discarded' },
  nonce: number,
): Change {
  const isPublished = copy === 'publish' || holder === 'ledger'
  return {
    state: 'discarded',
    discardedAt: now,
    completedAt: now,
    endedAt: now,
    isDeadLetter,
    deadLetterCopied: false,
    holder: null,
    outbox: isPublished ? nonce : null,
    messageOut: isPublished ? false : messageOut,
  }
}

/** The delivery behind the lease is about to be acknowledged. `any`: whoever holds it. */
export function handedOver(row: KeptRow, fence: AttemptFence, any = false): Change | null {
  const isHeld = any || row.holder === 'gateway'
  return isAttempt(row, fence) && isHeld ? { holder: 'ledger' } : null
}

/** It could not be acknowledged: RabbitMQ still has the message. */
export function handedBack(
  row: KeptRow,
  { generation, attempt }: { generation: number; attempt: number },
): Change | null {
  if (row.generation !== generation || row.attempt !== attempt) return null
  const isHandedOver = row.state === 'active' && row.holder === 'ledger'
  if (!isHandedOver && row.endedAt === null) return null
  return { holder: row.state === 'active' ? 'gateway' : null, messageOut: true }
}
