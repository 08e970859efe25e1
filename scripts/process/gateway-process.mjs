import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { inRoot, ROOT } from '../paths.mjs'
import { healthStatus } from './health-status.mjs'
import { freePort, isPortFree, nextFreePort } from './ports.mjs'
import { endProcess, guard, unguard } from './processes.mjs'
import { Refusal, say } from './progress.mjs'

const DEFAULT_PORT = 8080
const MAX_PORT = 65_535
/** Longer than the gateway's own drain, so that only a gateway that hangs is killed. */
const STOP_TIMEOUT_MS = 40_000

/** @typedef {{ host: string, port: number, url: string }} Address */

/** Chooses host, port and URL of the gateway, before anything slow is started. */
export async function chooseAddress(env = process.env) {
  const host = env['OJS_HOST'] || '127.0.0.1'
  const port = await choosePort(env['OJS_PORT'], host)
  const scheme = env['OJS_TLS_CERT'] ? 'https' : 'http'
  return { host, port, url: `${scheme}://${reachable(host)}:${port}` }
}

/**
 * Returns `address`, or another one if its port has been taken meanwhile.
 * @param {Address} address
 */
export async function stillFree(address, env = process.env) {
  return (await isPortFree(address.port, address.host)) ? address : await chooseAddress(env)
}

/**
 * @param {string | undefined} wanted
 * @param {string} host
 */
async function choosePort(wanted, host) {
  if (!wanted) {
    const port = await nextFreePort(DEFAULT_PORT, host)
    if (port !== DEFAULT_PORT) say(`Port ${DEFAULT_PORT} is taken; using ${port}.`)
    return port
  }
  if (!/^\d{1,5}$/.test(wanted) || Number(wanted) > MAX_PORT)
    throw new Refusal(`OJS_PORT=${wanted} is not a port number.`)
  const port = Number(wanted) || (await freePort())
  if (!(await isPortFree(port, host))) throw new Refusal(`OJS_PORT=${port} is taken on ${host}.`)
  return port
}

/**
 * The host for the URL: a server can listen on a wildcard address, but no client can connect to it.
 * @param {string} host
 */
function reachable(host) {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/**
 * Runs `dist/main.js serve`. `exited` settles with the exit code as in a shell; `stop` is idempotent.
 * @param {NodeJS.ProcessEnv} env
 */
export function startGateway(env) {
  const child = spawn(process.execPath, [inRoot('dist', 'main.js'), 'serve'], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    // In a session of its own, so that it gets exactly one signal, from `stop`, and not the terminal's too.
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const { pid } = child
  if (pid === undefined) throw new Error('the gateway could not be started')
  guard(pid)
  /** @type {Promise<number>} */
  const exited = new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      unguard(pid)
      resolve(code ?? 128 + (signal ? constants.signals[signal] : 0))
    })
  })
  /** @type {(signal: NodeJS.Signals, hurry: AbortSignal) => Promise<void>} */
  const stop = (signal, hurry) => {
    hurry.addEventListener('abort', () => child.kill('SIGKILL'), { once: true })
    return endProcess(pid, exited, STOP_TIMEOUT_MS, signal)
  }
  return { exited, stop }
}

/**
 * Resolves when the health endpoint answers 200, or when `signal` aborts.
 * @param {string} url
 * @param {AbortSignal} signal
 */
export async function untilHealthy(url, signal) {
  while (!signal.aborted && (await healthStatus(url)) !== 200) {
    await sleep(100, undefined, { signal }).catch(() => {})
  }
}
