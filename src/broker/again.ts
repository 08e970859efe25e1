import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

const PAUSE_MS = 1_000

/**
 * Before a message that could not be handled comes again: the ledger may be full. What stops gives it
 * back at once.
 */
export async function pauseBeforeAgain(stopping: AbortSignal): Promise<void> {
  // As many as are handled may wait at the same time.
  setMaxListeners(0, stopping)
  await sleep(PAUSE_MS, undefined, { signal: stopping, ref: false }).catch(() => {})
}
