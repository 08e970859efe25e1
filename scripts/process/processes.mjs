import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf } from './errors.mjs'

// When its stdin closes, this script ends the processes that it was last told of, one after the other. Stdin
// closes even when this process is killed with SIGKILL, and nothing else would end a broker then. A zombie
// counts as ended: in a container whose first process does not reap, it stays for ever. A process group
// belongs to a test run: its processes hold no data, and get 2 s instead of 20.
const GUARDIAN = `
is_alive() { kill -s 0 -- "$1" 2>/dev/null && ! grep -qs '^State:.Z' "/proc/$1/status"; }
pids=
while read -r line; do pids=$line; done
for pid in $pids; do
  kill -s TERM -- "$pid" 2>/dev/null || continue
  case $pid in -*) tries=10 ;; *) tries=100 ;; esac
  while is_alive "$pid" && [ $tries -gt 0 ]; do sleep 0.2; tries=$((tries - 1)); done
  kill -s KILL -- "$pid" 2>/dev/null
done
`

/** @type {number[]} */
let guarded = []
/** @type {ReturnType<typeof startGuardian> | undefined} */
let guardian

/**
 * From now on the process does not outlive this one, however this one ends. Here and below, a negative pid
 * stands for a whole process group, as in kill(2).
 * @param {number} pid
 */
export function guard(pid) {
  // A process may depend on those that were started before it, so the last one ends first.
  guarded.unshift(pid)
  tellGuardian()
}

/**
 * Call it when the process has ended, before its pid can belong to another process.
 * @param {number} pid
 */
export function unguard(pid) {
  guarded = guarded.filter((each) => each !== pid)
  tellGuardian()
}

// If this process ends first, `read` sees the end of its input and the shell ends without running the
// command.
const HELD = 'read -r _ && exec "$@" </dev/null'

/**
 * Spawns a process that runs its command only after `letGo`, so that it can be guarded before. Otherwise it
 * would outlive a process that ends while it is starting the child, as vitest's workers do when a test run is
 * interrupted. Its output goes to the file descriptor `output`.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {import('node:child_process').SpawnOptions & { output: number }} options
 */
export function spawnHeld(command, args, { output, ...options }) {
  const child = spawn('sh', ['-c', HELD, 'sh', command, ...args], {
    stdio: ['pipe', output, output],
    ...options,
  })
  child.on('error', () => {})
  // Undefined if the process could not be started.
  child.stdin?.on('error', () => {})
  return { child, letGo: () => child.stdin?.end('\n') }
}

function tellGuardian() {
  guardian ??= startGuardian()
  guardian.stdin.write(`${guarded.join(' ')}\n`)
}

/**
 * The pid of the process that ends the guarded ones. It lives until this process ends and they have ended.
 */
export function guardianPid() {
  guardian ??= startGuardian()
  return guardian.pid
}

function startGuardian() {
  // In a session of its own, or else Ctrl-C would end it before its work begins.
  const child = spawn('sh', ['-c', GUARDIAN], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.on('error', () => {})
  child.stdin.on('error', () => {})
  const stdin = /** @type {import('node:net').Socket} */ (child.stdin)
  stdin.unref()
  child.unref()
  return child
}

/**
 * Sends a signal, and SIGKILL after `graceMs`. `exited` settles when the process has ended.
 * @param {number} pid
 * @param {Promise<unknown>} exited
 * @param {number} graceMs
 * @param {NodeJS.Signals} signal
 */
export async function endProcess(pid, exited, graceMs, signal = 'SIGTERM') {
  signalProcess(pid, signal)
  const timer = new AbortController()
  const late = sleep(graceMs, true, { signal: timer.signal }).catch(() => false)
  if (await Promise.race([exited.then(() => false), late])) signalProcess(pid, 'SIGKILL')
  timer.abort()
  await exited
}

/**
 * False if the process has ended already.
 * @param {number} pid
 * @param {NodeJS.Signals | 0} signal
 */
export function signalProcess(pid, signal) {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (codeOf(error) === 'ESRCH') return false
    throw error
  }
}

/**
 * True for processes of other users, too.
 * @param {number} pid
 */
export function isAlive(pid) {
  try {
    return signalProcess(pid, 0)
  } catch (error) {
    if (codeOf(error) === 'EPERM') return true
    throw error
  }
}
