import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { untilHealthy } from '../scripts/process/gateway-process.mjs'
import { endProcess, guard, unguard } from '../scripts/process/processes.mjs'
import { tail } from '../scripts/process/run.mjs'

const START_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 40_000

/**
 * Starts a gateway for this benchmark: on any free port, with ledger and log in `dir`, and every other
 * setting at its default, whatever the caller's environment says.
 * @param {{ main: string, nodeArgs: readonly string[], env: NodeJS.ProcessEnv, dir: string }} options
 */
export async function startGateway({ main, nodeArgs, env, dir }) {
  const logFile = join(dir, 'gateway.log')
  const log = openSync(logFile, 'w')
  const child = spawn(process.execPath, [...nodeArgs, main, 'serve'], {
    cwd: dir,
    env: {
      ...withoutGatewaySettings(process.env),
      OJS_PORT: '0',
      OJS_LEDGER: `sqlite:${join(dir, 'ledger.db')}`,
      ...env,
    },
    detached: true,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  const { pid } = child
  if (pid === undefined) throw new Error('the gateway could not be started')
  guard(pid)
  let hasExited = false
  const exited = new Promise((resolve) => child.once('exit', resolve)).then(() => {
    hasExited = true
    unguard(pid)
  })
  const stop = () => endProcess(pid, exited, STOP_TIMEOUT_MS)
  const url = await untilListening(logFile, () => hasExited)
  if (!url) {
    await stop()
    throw new Error(`the gateway did not start:\n${tail(readFileSync(logFile, 'utf8'))}`)
  }
  await untilHealthy(url, AbortSignal.timeout(START_TIMEOUT_MS))
  return { url, pid, stop }
}

/** @param {NodeJS.ProcessEnv} env */
function withoutGatewaySettings(env) {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith('OJS_') && name !== 'AMQP_URL'),
  )
}

/**
 * @param {string} logFile
 * @param {() => boolean} hasExited
 */
async function untilListening(logFile, hasExited) {
  const deadline = Date.now() + START_TIMEOUT_MS
  while (!hasExited() && Date.now() < deadline) {
    const line = readFileSync(logFile, 'utf8')
      .split('\n')
      .find((each) => each.includes('"gateway listening"'))
    if (line) return JSON.parse(line).url
    await sleep(50)
  }
  return undefined
}
