/** @type {NodeJS.Signals[]} */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
/** npm forwards the terminal's SIGINT, so one Ctrl-C arrives twice; only a later signal is a second one. */
const SECOND_AFTER_MS = 1000

/**
 * Handles signals, which would otherwise end this process and leave its children behind. `signal` aborts at
 * the first SIGINT, SIGTERM or SIGHUP, `hurry` at a later one. The abort reason tells which signal it was.
 * @returns {{ signal: AbortSignal, hurry: AbortSignal }}
 */
export function interruption() {
  const first = new AbortController()
  const second = new AbortController()
  let firstAt = 0
  /** @param {NodeJS.Signals} name */
  const receive = (name) => {
    if (!first.signal.aborted) {
      firstAt = Date.now()
      first.abort(new Interrupted(name))
    } else if (Date.now() - firstAt > SECOND_AFTER_MS) {
      second.abort(new Interrupted(name))
    }
  }
  for (const name of SIGNALS) process.on(name, () => receive(name))
  whenOrphaned(() => first.abort(new Interrupted('SIGTERM')))
  return { signal: first.signal, hurry: second.signal }
}

class Interrupted extends Error {
  /** @param {NodeJS.Signals} name */
  constructor(name) {
    super(`interrupted by ${name}`)
    // The signal for our children: SIGHUP concerns our terminal, and they have none.
    this.signalName = name === 'SIGHUP' ? 'SIGTERM' : name
  }
}

/**
 * Calls `act` when the parent process has ended. When npm runs this process, its parent is npm or the shell
 * between them, and a SIGTERM may end that shell alone. A new parent process id then means that nobody is
 * left to stop us.
 * @param {() => void} act
 */
function whenOrphaned(act) {
  if (!process.env['npm_lifecycle_event']) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    act()
  }, 500)
  timer.unref()
}
