import { setTimeout as sleep } from 'node:timers/promises'
import { findBroker } from '../broker/find-broker.mjs'
import { build, isBuildStale } from '../build.mjs'
import { ensureDependencies } from '../dependencies.mjs'
import { inRoot } from '../paths.mjs'
import { findLedger } from '../postgres/find-ledger.mjs'
import { summary } from '../test/summary.mjs'
import { messageOf } from './errors.mjs'
import { chooseAddress, startGateway, stillFree, untilHealthy } from './gateway-process.mjs'
import { interruption } from './interruption.mjs'
import { takeLock } from './lock.mjs'
import { guardianPid } from './processes.mjs'
import { Refusal, say, waitingFor } from './progress.mjs'

/**
 * @typedef {import('../broker/find-broker.mjs').Broker} Broker
 * @typedef {import('../postgres/find-ledger.mjs').Ledger} Ledger
 * @typedef {import('./gateway-process.mjs').Address} Address
 */

/** Everything behind `npm start`. Resolves to the exit code. */
export async function start() {
  const { signal, hurry } = interruption()
  signal.addEventListener('abort', () => say('Stopping …'))
  try {
    const lock = await lockFolder(signal)
    return await startLocked(signal, hurry).finally(() => lock.release())
  } catch (error) {
    // A step may fail because of the interruption; that error is not reported.
    if (signal.aborted) return 0
    throw error
  }
}

/**
 * @param {AbortSignal} signal
 * @param {AbortSignal} hurry
 */
async function startLocked(signal, hurry) {
  const chosen = await chooseAddress()
  await prepare(signal)
  const ledger = await findLedger(signal)
  try {
    return await startOn(ledger, { chosen, signal, hurry })
  } finally {
    await ledger?.stop()
  }
}

/**
 * @param {Ledger | undefined} ledger
 * @param {{ chosen: Address, signal: AbortSignal, hurry: AbortSignal }} run
 */
async function startOn(ledger, { chosen, signal, hurry }) {
  const broker = await findBroker(signal)
  try {
    signal.throwIfAborted()
    // Minutes may have passed, and another gateway may have taken the port.
    const address = await stillFree(chosen)
    return await runGateway({ address, broker, ledger, signal, hurry })
  } finally {
    await broker.stop()
  }
}

/**
 * One gateway per folder: two of them would share a ledger file and a broker's data.
 * @param {AbortSignal} signal
 */
async function lockFolder(signal) {
  const pids = [process.pid, guardianPid()].filter((pid) => pid !== undefined)
  const take = () => takeLock(inRoot('data', 'start.lock'), pids)
  let lock = take()
  // The previous run was killed, and its guardian is still ending the processes that it left behind.
  if (lock.holder && lock.isEnding) {
    await waitingFor('what the previous run left behind to end', async () => {
      while (lock.holder && lock.isEnding && !signal.aborted) {
        await sleep(200)
        lock = take()
      }
    })
  }
  if (lock.holder !== undefined)
    throw new Refusal(`npm start is already running here (pid ${lock.holder}).`)
  return lock
}

/** @param {AbortSignal} signal */
async function prepare(signal) {
  await ensureDependencies({ dev: isBuildStale(), signal })
  signal.throwIfAborted()
  if (isBuildStale()) await build(signal)
  signal.throwIfAborted()
}

/**
 * @param {{ address: Address, broker: Broker, ledger: Ledger | undefined, signal: AbortSignal,
 *   hurry: AbortSignal }} run
 */
async function runGateway({ address, broker, ledger, signal, hurry }) {
  // The URL already contains what was in the file. Setting both would be an error.
  const amqp = { OJS_AMQP_URL: broker.url, OJS_AMQP_URL_FILE: '' }
  const store = ledger && { OJS_LEDGER: ledger.url }
  const gateway = startGateway({ ...amqp, ...store, OJS_PORT: String(address.port) })
  const ended = new AbortController()
  const ending = gateway.exited.finally(() => ended.abort())
  signal.addEventListener('abort', () => void gateway.stop(signal.reason.signalName, hurry))
  /** @type {(name: string, server: Broker | Ledger | undefined) => Promise<void>} */
  const keep = (name, server) =>
    keepRunning(name, server ?? {}, ended.signal).catch((error) => {
      // The gateway has ended, so its servers are not needed any more.
      if (ended.signal.aborted) return
      say(`${name} could not be started again: ${messageOf(error)}`)
      void gateway.stop('SIGTERM', hurry)
    })
  const kept = Promise.all([keep('RabbitMQ', broker), keep('PostgreSQL', ledger)])
  void announce({ address, broker, ledger, until: ended.signal })
  const code = await waitForEnd(ending, signal)
  await kept
  if (!signal.aborted) say(`The gateway ended by itself (exit code ${code}).`)
  return signal.aborted ? code : code || 1
}

/**
 * While the gateway drains, say so.
 * @param {Promise<number>} ending
 * @param {AbortSignal} signal
 */
async function waitForEnd(ending, signal) {
  await Promise.race([ending, new Promise((resolve) => signal.addEventListener('abort', resolve))])
  return signal.aborted ? waitingFor('the gateway to stop', () => ending) : ending
}

/** @param {{ address: Address, broker: Broker, ledger: Ledger | undefined, until: AbortSignal }} run */
async function announce({ address, broker, ledger, until }) {
  await waitingFor('the gateway to be ready', () => untilHealthy(address.url, until))
  if (!until.aborted) say(summary(address.url, broker, ledger))
}

/**
 * Restarts a private server that crashes; it keeps its data, and the gateway reconnects by itself.
 * @param {string} name
 * @param {Pick<Broker, 'exited' | 'restart'>} server
 * @param {AbortSignal} until
 */
async function keepRunning(name, { exited, restart }, until) {
  if (!exited || !restart) return
  const over = new Promise((resolve) => until.addEventListener('abort', resolve))
  while (!until.aborted) {
    await Promise.race([exited(), over])
    if (until.aborted) return
    say(`${name} ended unexpectedly; starting it again.`)
    await waitingFor(`${name} to start`, () => restart(until))
  }
}
