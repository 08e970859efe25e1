// A reader that has gone away (`npm start | head`) is no reason to leave the broker behind.
process.stderr.on('error', () => {})

/** Everything that the scripts say goes to stderr, so that stdout carries only the program's own lines. */
export function say(text) {
  process.stderr.write(`${text}\n`)
}

/**
 * Runs `work` and says every 2 s what is being waited for: silence looks like a hang to a newcomer.
 * `what` completes the sentence "waiting for …".
 */
export async function waitingFor(what, work) {
  const startedAt = Date.now()
  const timer = setInterval(() => {
    say(`  waiting for ${what} (${Math.round((Date.now() - startedAt) / 1000)} s)`)
  }, 2000)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}

/** A failure that the user can act on: printed as its message alone, without a stack. */
export class Refusal extends Error {}
