/** Jobs that end, and rows that have ended. */
import type { JobRow } from '../job.ts'
import { type Change, type KeptRow, NO_LEASE, recorded } from './row.ts'

/** Law 3: a terminal transition clears the outbox. */
const END_LIFE = { outbox: null, holder: null, ...NO_LEASE } as const

/** Keeps the worker of an active job. In a waiting row, `workerId` is only the mark of `isOwedAgain`. */
function lastWorker({ state, workerId }: KeptRow): string | null {
  return state === 'active' ? workerId : null
}

/**
 * The row takes the nonce if its workers must be told: a job message may be out, or the job runs. A lease with
 * the holder `ledger` has no message, but a native worker may be running the job.
 */
export function cancelled(row: KeptRow, now: number, nonce: number, line: string): Change {
  return {
    state: 'cancelled',
    cancelledAt: now,
    endedAt: now,
    workerId: lastWorker(row),
    messageOut: row.holder === 'ledger' ? false : row.messageOut,
    outbox: row.messageOut || row.state === 'active' ? nonce : null,
    holder: null,
    ...NO_LEASE,
    history: recorded(row, line),
  }
}

/** `completedAt` null: the job expired before it ran. */
export type Discard = Pick<
  JobRow,
  | 'error'
  | 'errors'
  | 'attempt'
  | 'completedAt'
  | 'deadLetterCopied'
  | 'isDeadLetter'
  | 'messageOut'
>

export function discarded(row: KeptRow, now: number, discard: Discard, line: string): Change {
  return {
    ...discard,
    state: 'discarded',
    discardedAt: now,
    endedAt: now,
    workerId: lastWorker(row),
    ...END_LIFE,
    history: recorded(row, line),
  }
}

/**
 * A message of the job has come back: see `Ledger.messageReturned`. The job message of a retry that the ledger
 * holds was that of the attempt before. If the next message is in a retry queue, only a message ahead of the
 * row's attempt is that message. `messageAttempt` null: the message that is out.
 */
export function returned(
  row: KeptRow,
  generation: number,
  messageAttempt: number | null,
): Change | null {
  const { state, retryQueueMs, outbox, holder, attempt, endedAt } = row
  if (row.generation !== generation || !row.messageOut) return null
  if (retryQueueMs !== null && messageAttempt !== null && messageAttempt <= attempt) return null
  const isAwaited =
    endedAt !== null ||
    (state === 'retryable' && retryQueueMs === null && outbox === null) ||
    (state === 'available' && holder === 'ledger')
  return isAwaited ? { messageOut: false } : null
}

/** The copy in the DLX queue is there. */
export function copied(row: KeptRow, generation: number): Change | null {
  const isDue = row.generation === generation && row.state === 'discarded' && !row.deadLetterCopied
  return isDue ? { deadLetterCopied: true, outbox: null } : null
}

/** The broker has confirmed the copy that was published for `nonce`. */
export function copyPublished({ state, outbox }: KeptRow, nonce: number): Change | null {
  const isDue = outbox === nonce && state === 'discarded'
  return isDue ? { deadLetterCopied: true, outbox: null } : null
}

/** What is left of a row that is erased (`isErased`). */
export function erased(endedAt: number): Change {
  return {
    state: 'withdrawn',
    isDeadLetter: false,
    outbox: null,
    carry: null,
    error: null,
    errors: null,
    result: null,
    envelope: '{}',
    history: '',
    uniqueKey: null,
    endedAt,
  }
}

/** What is left of a refused job: cancelled and erased, because RabbitMQ may have its message after all. */
export function withdrawn({ enqueuedAt }: Pick<KeptRow, 'enqueuedAt'>): Change {
  return { ...erased(enqueuedAt), cancelledAt: enqueuedAt }
}

/**
 * Begins the next generation. A `retryable` row keeps its attempts and its error, and a holder of its last
 * delivery loses it: that message is of the generation before.
 */
export function revived(row: KeptRow, now: number, nonce: number, line: string): Change {
  const isKept = row.state === 'retryable'
  return {
    state: 'available',
    generation: row.generation + 1,
    ...(!isKept && { attempt: 0, error: null }),
    outbox: nonce,
    messageOut: true,
    holder: null,
    workerId: null,
    dueAt: null,
    retryQueueMs: null,
    retryDelayMs: null,
    enqueuedAt: now,
    startedAt: null,
    completedAt: null,
    cancelledAt: null,
    discardedAt: null,
    endedAt: null,
    isDeadLetter: false,
    deadLetterCopied: false,
    result: null,
    history: recorded(row, line),
  }
}
