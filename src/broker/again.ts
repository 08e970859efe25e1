import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

const PAUSE_MS = 1_000

/**
 * Before a message that could not be handled comes again, as when the ledger is full, or what failed is
 * tried once more. What stops ends it at once. Keeps no process alive.
 */
export async function pauseBeforeAgain(stopping: AbortSignal, ms = PAUSE_MS): Promise<void> {
  // As many as there are may wait at the same time.
  setMaxListeners(0, stopping)
  await sleep(ms, undefined, { signal: stopping, ref: false }).catch(() => {})
}
