// If the reader has gone away (`npm start | head`), go on: the broker must not be left behind.
process.stderr.on('error', () => {})

/**
 * Prints to stderr, so that stdout has only the lines of the program itself.
 * @param {string} text
 */
export function say(text) {
  process.stderr.write(`${text}\n`)
}

/**
 * Runs `work` and prints every 2 s what is being waited for: to a newcomer, silence looks like a hang. `what`
 * completes the sentence "waiting for …".
 * @template T
 * @param {string} what
 * @param {() => T | Promise<T>} work
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

/** A failure that the user can act on. Only its message is printed, without a stack. */
export class Refusal extends Error {}

/**
 * What to print of the error that ended a command.
 * @param {unknown} error
 */
export function reportOf(error) {
  if (error instanceof Refusal) return error.message
  return error instanceof Error && error.stack ? error.stack : String(error)
}
