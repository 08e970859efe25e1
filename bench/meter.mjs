import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { readText } from '../scripts/process/read-text.mjs'

/** Linux reports CPU time in hundredths of a second to every program (USER_HZ). */
const TICKS_PER_SECOND = 100

/** Other processes that use more than this share of a core change the figures. */
export const DISTURBED_PERCENT = 10
/** An idle broker and gateway need some of this themselves. */
const QUIET_PERCENT = 20

/** @typedef {{ gateway?: number, broker?: number | undefined }} Watched process ids */

/**
 * Measures what a round costs: CPU in percent of one core, from `/proc`, of this process (`load`) and of the
 * watched processes by their names. `others` is the CPU of all other processes of the machine, which shows
 * how undisturbed the round was. NaN without `/proc`.
 */
export class Meter {
  #watched
  #before

  /** @param {Watched} watched */
  constructor(watched) {
    this.#watched = { load: process.pid, ...watched }
    if (watched?.gateway) forgetPeak(watched.gateway)
    this.#before = this.#snapshot()
  }

  stop() {
    const after = this.#snapshot()
    const seconds = (after.at - this.#before.at) / 1000
    const used = (/** @type {string} */ name) =>
      (after.cpu[name] - this.#before.cpu[name]) / seconds
    const percent = Object.fromEntries(
      Object.keys(this.#watched).map((name) => [name, 100 * used(name)]),
    )
    const ours = Object.values(percent).reduce((sum, each) => sum + each, 0)
    return {
      seconds,
      cpu: { ...percent, others: Math.max(0, 100 * used('machine') - ours) },
      rssMb: this.#watched.gateway ? peakMb(this.#watched.gateway) : Number.NaN,
    }
  }

  #snapshot() {
    const cpu = Object.entries(this.#watched).map(([name, pid = 0]) => [name, processSeconds(pid)])
    return {
      at: performance.now(),
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

/** @param {number} pid */
function processSeconds(pid) {
  // Fields 14 and 15 (utime, stime), counted after the command name, which may hold spaces.
  const stat = readText(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
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
