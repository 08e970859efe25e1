import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Also a folder in which a process that is just ending still writes: `rmSync` lists a folder once,
 * and repeats only the last step. Rejects when it is still there after `withinMs`.
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
