import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Linux counts CPU time in hundredths of a second for every program (USER_HZ). */
const TICKS_PER_SECOND = 100
const MB = 1024 * 1024

/** Other processes at work for more than this share of one core change the figures. */
export const DISTURBED_PERCENT = 10
/** An idle broker and gateway need some, too. */
const QUIET_PERCENT = 20

/**
 * What a round cost: CPU in percent of one core, from `/proc`, of this process (`load`) and of the
 * ones that are watched by name; `others` is every other process of the machine, the measure of
 * how undisturbed the round was. NaN where there is no `/proc`.
 */
export class Meter {
  #watched
  #before

  constructor(watched) {
    this.#watched = { load: process.pid, ...watched }
    this.#before = this.#snapshot()
  }

  stop() {
    const after = this.#snapshot()
    const seconds = (after.at - this.#before.at) / 1000
    const used = (name) => (after.cpu[name] - this.#before.cpu[name]) / seconds
    const percent = Object.fromEntries(
      Object.keys(this.#watched).map((name) => [name, 100 * used(name)]),
    )
    const ours = Object.values(percent).reduce((sum, each) => sum + each, 0)
    return {
      seconds,
      cpu: { ...percent, others: Math.max(0, 100 * used('machine') - ours) },
      rssMb: this.#watched.gateway ? residentBytes(this.#watched.gateway) / MB : Number.NaN,
    }
  }

  #snapshot() {
    const cpu = Object.entries(this.#watched).map(([name, pid]) => [name, processSeconds(pid)])
    return {
      at: performance.now(),
      cpu: { ...Object.fromEntries(cpu), machine: machineSeconds() },
    }
  }
}

/** Resolves when all cores together were nearly idle for two seconds. */
export async function quietMachine(signal) {
  for (;;) {
    const before = machineSeconds()
    await sleep(2000, undefined, { signal })
    if (100 * ((machineSeconds() - before) / 2) < QUIET_PERCENT) return
  }
}

function processSeconds(pid) {
  // Fields 14 and 15 (utime, stime), counted after the command name, which may hold spaces.
  const stat = readText(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** Seconds that all cores together spent on work, interrupts included. */
function machineSeconds() {
  const [user, nice, system, , , irq, softirq, steal] = readText('/proc/stat')
    .split('\n', 1)[0]
    .split(/\s+/)
    .slice(1)
    .map(Number)
  return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND
}

function residentBytes(pid) {
  return 1024 * Number(/VmRSS:\s+(\d+)/.exec(readText(`/proc/${pid}/status`))?.[1])
}

function readText(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
