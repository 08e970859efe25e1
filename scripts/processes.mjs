import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

// Ends what it was last told about, one after the other, when its stdin closes: that happens even
// when this process is killed with SIGKILL, and nothing else would end a broker then.
// A zombie counts as ended: where the first process of a container reaps nobody, it stays for ever.
// A process group is a test run's: what is in it holds no data and gets 2 s instead of 20.
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

let guarded = []
let guardian

/**
 * From now on the process does not outlive this one, however this one ends. Here and below a
 * negative pid stands for a whole process group, as with kill(2).
 */
export function guard(pid) {
  // What was started last depends on what was before it, so it ends first.
  guarded.unshift(pid)
  tellGuardian()
}

/** To be called when the process is gone, before its pid can belong to somebody else. */
export function unguard(pid) {
  guarded = guarded.filter((each) => each !== pid)
  tellGuardian()
}

// Reads the end of its input, and so ends, when nobody is left to write the line.
const HELD = 'read -r _ && exec "$@" </dev/null'

/**
 * A process that runs its command only when it is let go: one that has its guard by then is never
 * without. Else it would outlive a process that ends while it starts it, as vitest's workers do when
 * a test run is interrupted. Its output goes to the file descriptor `output`.
 */
export function spawnHeld(command, args, { output, ...options }) {
  const child = spawn('sh', ['-c', HELD, 'sh', command, ...args], {
    stdio: ['pipe', output, output],
    ...options,
  })
  child.on('error', () => {})
  // None where it could not be started.
  child.stdin?.on('error', () => {})
  return { child, letGo: () => child.stdin.end('\n') }
}

function tellGuardian() {
  guardian ??= startGuardian()
  guardian.stdin.write(`${guarded.join(' ')}\n`)
}

/** The process that ends what is guarded. It lives as long as this one, and then while it works. */
export function guardianPid() {
  guardian ??= startGuardian()
  return guardian.pid
}

function startGuardian() {
  // In a session of its own, or Ctrl-C would end it before its work begins.
  const child = spawn('sh', ['-c', GUARDIAN], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.on('error', () => {})
  child.stdin.on('error', () => {})
  child.stdin.unref()
  child.unref()
  return child
}

/** A signal, up to `graceMs` to comply, SIGKILL. `exited` settles when the process is gone. */
export async function endProcess(pid, exited, graceMs, signal = 'SIGTERM') {
  signalProcess(pid, signal)
  const timer = new AbortController()
  const late = sleep(graceMs, true, { signal: timer.signal }).catch(() => false)
  if (await Promise.race([exited.then(() => false), late])) signalProcess(pid, 'SIGKILL')
  timer.abort()
  await exited
}

/** False when the process is gone already. */
export function signalProcess(pid, signal) {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (error.code === 'ESRCH') return false
    throw error
  }
}

/** Also one that is somebody else's. */
export function isAlive(pid) {
  try {
    return signalProcess(pid, 0)
  } catch (error) {
    if (error.code === 'EPERM') return true
    throw error
  }
}
