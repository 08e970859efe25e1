/** Available jobs whose concurrency key holds them back: see `isHeldByKey`. */
import { type Change, type KeptRow, recorded } from './row.ts'

/** An available job that owes its message, or whose message cannot be there, stands in its line. */
export const HELD_BACK: Change = {
  holder: 'ledger',
  outbox: null,
  retryQueueMs: null,
  messageOut: false,
}

/**
 * The message of a job that waits has come, and is about to be acknowledged. `before`: what holds for a job that
 * waits for its next attempt, when the message of a later one has come.
 */
export function heldWithMessage(
  row: KeptRow,
  before: Required<Pick<Change, 'attempt' | 'error' | 'errors'>>,
  now: number,
  line: string,
): Change {
  const isDue = row.state !== 'available'
  return {
    ...before,
    state: 'available',
    enqueuedAt: isDue ? now : row.enqueuedAt,
    dueAt: null,
    holder: 'ledger',
    workerId: null,
    outbox: null,
    retryQueueMs: null,
    messageOut: true,
    history: isDue ? recorded(row, line) : row.history,
  }
}

/** Its turn has come: it owes its message. */
export function letGo(nonce: number): Change {
  return { holder: null, outbox: nonce, messageOut: true }
}
