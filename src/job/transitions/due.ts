/** Jobs whose time comes: activated, promoted, sent ahead; and rows whose message was lost. */
import { IN_EXCHANGE } from '../job.ts'
import { type Change, type KeptRow, recorded } from './row.ts'

/** `lines`: of the history, for either state. */
export function activated(
  row: KeptRow,
  { now, wall, nonce }: { now: number; wall: number; nonce: number },
  lines: { available: string; scheduled: string },
): Change | null {
  if (row.state !== 'pending') return null
  const isAhead = row.dueAt !== null && row.dueAt > wall
  const state = isAhead ? 'scheduled' : 'available'
  return {
    activatedAt: now,
    state,
    outbox: isAhead ? null : nonce,
    messageOut: !isAhead,
    enqueuedAt: isAhead ? row.enqueuedAt : now,
    dueAt: isAhead ? row.dueAt : null,
    history: recorded(row, lines[state]),
  }
}

/** `nonce` null: the job message waits in a retry queue, and comes by itself. */
export function promoted(row: KeptRow, now: number, nonce: number | null, line: string): Change {
  return {
    state: 'available',
    enqueuedAt: now,
    dueAt: null,
    messageOut: true,
    outbox: nonce,
    retryQueueMs: nonce === null ? row.retryQueueMs : null,
    history: recorded(row, line),
  }
}

/** The delay plugin is to hold its message from now on. */
export function sentAhead(nonce: number): Change {
  return { outbox: nonce, retryQueueMs: IN_EXCHANGE, messageOut: true }
}

/** How far a broker's clock may be ahead of ours. */
const DRIFT_MS = 60_000

/**
 * The queue is lost: was the row's job message in it? A retry's message counts if it has left its retry queue, or
 * will soon. Null: it was elsewhere.
 */
export function lostWith(
  { state, holder, retryQueueMs, outbox, dueAt, retryDelayMs }: KeptRow,
  now: number,
): 'owed' | 'held' | 'handed over' | null {
  switch (state) {
    case 'available':
      return holder === 'ledger' ? null : 'owed'
    case 'active':
      return holder === 'gateway' || holder === 'native' ? 'handed over' : null
    case 'scheduled':
      return retryQueueMs !== null && outbox === null ? 'held' : null
    case 'retryable': {
      if (retryQueueMs === null || outbox !== null || dueAt === null) return null
      const leavesAt = dueAt - (retryDelayMs ?? retryQueueMs) + retryQueueMs
      return leavesAt <= now + DRIFT_MS ? 'held' : null
    }
    default:
      return null
  }
}

/** RabbitMQ has lost the message of this row, which became available within the span (clock time). */
export function isMessageLost(
  { state, holder, outbox, enqueuedAt }: KeptRow,
  { after, before }: { after: number | null; before: number },
): boolean {
  const isOut = state === 'available' && outbox === null && holder === null
  return isOut && (after === null || enqueuedAt > after) && enqueuedAt <= before
}

/**
 * Its message is lost. `isMessageGone`: RabbitMQ cannot deliver it again to a native worker that has started the
 * job and reports so only now; `workerId` marks the row for that (`isOwedAgain`).
 */
export function rearmed(row: KeptRow, nonce: number | null, isMessageGone: boolean): Change {
  const workerId = isMessageGone ? (row.workerId ?? '') : row.workerId
  return { outbox: nonce, retryQueueMs: null, holder: null, workerId }
}
