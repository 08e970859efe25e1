/** Another priority for a job that waits. */
import { hasMessage } from '../priority.ts'
import { type Change, type KeptRow, recorded } from './row.ts'

/**
 * `envelope`: as it is from now on. A message with the priority before is void: an available job owes another (the
 * nonce), a scheduled one has none from now on.
 */
export function prioritized(
  row: KeptRow,
  { priority, envelope }: { priority: number; envelope: string },
  nonce: number,
  line: string,
): Change {
  const change = { priority, envelope, history: recorded(row, line) }
  if (!hasMessage(row)) return change
  return {
    ...change,
    generation: row.generation + 1,
    outbox: row.state === 'available' ? nonce : null,
    messageOut: true,
    holder: null,
    workerId: null,
    retryQueueMs: null,
  }
}
