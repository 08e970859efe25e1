import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { readText } from '../scripts/process/read-text.mjs'
import { familySeconds, TICKS_PER_SECOND } from './family.mjs'

/** Other processes that use more than this share of a core change the figures. */
export const DISTURBED_PERCENT = 10
/** An idle broker and gateway need some of this themselves. */
const QUIET_PERCENT = 20

/** @typedef {{ gateway?: number, broker?: number | undefined, ledger?: number | undefined }} Watched process ids */

/**
 * Measures what a round costs: CPU in percent of one core, from `/proc`, of this process (`load`) and of the
 * watched processes by their names, with their descendants. `others` is the CPU of all other processes of the machine, which shows
 * how undisturbed the round was. NaN without `/proc`.
 */
export class Meter {
  #watched
  #gateway
  #before

  /** @param {Watched} watched */
  constructor(watched) {
    const given = Object.entries({ load: process.pid, ...watched })
    this.#watched = given.flatMap(([name, pid]) => (pid === undefined ? [] : [{ name, pid }]))
    this.#gateway = watched?.gateway
    if (watched?.gateway) forgetPeak(watched.gateway)
    this.#before = this.#snapshot()
  }

  stop() {
    const after = this.#snapshot()
    const seconds = (after.at - this.#before.at) / 1e6
    const used = (/** @type {string} */ name) =>
      (after.cpu[name] - this.#before.cpu[name]) / seconds
    const percent = Object.fromEntries(this.#watched.map(({ name }) => [name, 100 * used(name)]))
    const ours = Object.values(percent).reduce((sum, each) => sum + each, 0)
    return {
      seconds,
      cpu: { ...percent, others: Math.max(0, 100 * used('machine') - ours) },
      rssMb: this.#gateway ? peakMb(this.#gateway) : Number.NaN,
      window: { from: this.#before.at, to: after.at },
    }
  }

  #snapshot() {
    const cpu = this.#watched.map(({ name, pid }) => [name, familySeconds(pid)])
    return {
      at: machineMicroseconds(),
      cpu: { ...Object.fromEntries(cpu), machine: machineSeconds() },
    }
  }
}

/**
 * Resolves when all cores together have been nearly idle for two seconds.
 * @param {AbortSignal} signal
 */
export async function quietMachine(signal) {
  for (;;) {
    const before = machineSeconds()
    await sleep(2000, undefined, { signal })
    if (100 * ((machineSeconds() - before) / 2) < QUIET_PERCENT) return
  }
}

/** Of a clock that all processes share, and their CPU profiles. */
function machineMicroseconds() {
  return Number(process.hrtime.bigint()) / 1000
}

/** The fields user, nice, system, irq, softirq and steal of a line of /proc/stat. */
const WORKING = [1, 2, 3, 6, 7, 8]

/** The seconds that all cores together spent working, interrupts included. */
function machineSeconds() {
  const [ofAllCores = ''] = readText('/proc/stat').split('\n', 1)
  const fields = ofAllCores.split(/\s+/)
  return WORKING.reduce((sum, field) => sum + Number(fields[field]), 0) / TICKS_PER_SECOND
}

/**
 * The present memory of a process.
 * @param {number} pid
 */
export function residentMb(pid) {
  return statusKb(pid, 'VmRSS') / 1024
}

/**
 * The peak memory of a process since `forgetPeak`.
 * @param {number} pid
 */
function peakMb(pid) {
  return statusKb(pid, 'VmHWM') / 1024
}

/**
 * Resets the peak: writing 5 tells Linux to do so. If that fails, the peak is that of the whole run.
 * @param {number} pid
 */
function forgetPeak(pid) {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // Not Linux, or without this option: there is no figure, or one that is too high.
  }
}

/**
 * @param {number} pid
 * @param {string} field
 */
function statusKb(pid, field) {
  const line = readText(`/proc/${pid}/status`)
    .split('\n')
    .find((each) => each.startsWith(field))
  return Number(/\d+/.exec(line ?? '')?.[0])
}
