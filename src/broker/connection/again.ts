import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

const PAUSE_MS = 1_000

/**
 * Pauses before a message that could not be handled is redelivered (as when the ledger is full), or before
 * another attempt at what failed. `stopping` ends the pause at once. Keeps no process alive.
 */
export async function pauseBeforeAgain(stopping: AbortSignal, ms = PAUSE_MS): Promise<void> {
  // Any number of messages may be pausing at the same time.
  setMaxListeners(0, stopping)
  await sleep(ms, undefined, { signal: stopping, ref: false }).catch(() => {})
}
