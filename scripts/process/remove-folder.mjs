import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Removes a folder, even if a process that is just ending still writes to it: `rmSync` lists a folder once,
 * and retries only the removal itself. Rejects if the folder still exists after `withinMs`.
 * @param {string} path
 */
export async function removeFolder(path, withinMs = 10_000) {
  const until = Date.now() + withinMs
  for (;;) {
    try {
      return rmSync(path, { recursive: true, force: true })
    } catch (error) {
      if (Date.now() >= until) throw error
      await sleep(200)
    }
  }
}
