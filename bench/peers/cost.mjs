/** What a round costs: CPU and memory of processes with all their descendants, from `/proc`. */
import { readdirSync } from 'node:fs'
import { readText } from '../../scripts/process/read-text.mjs'

const TICKS_PER_SECOND = 100

/**
 * CPU seconds so far, and MiB of memory now (shared pages are divided), by the names of the roots.
 * @param {Record<string, number>} roots process ids
 */
export function costOf(roots) {
  return Object.fromEntries(
    Object.entries(roots).map(([name, pid]) => {
      const family = [pid, ...descendants(pid)]
      const seconds = family.reduce((sum, each) => sum + cpuSeconds(each), 0)
      const mb = family.reduce((sum, each) => sum + memoryMb(each), 0)
      return [name, { seconds, mb }]
    }),
  )
}

/**
 * @param {number} pid
 * @returns {number[]}
 */
function descendants(pid) {
  return tasks(pid).flatMap((task) => {
    const children = read(`/proc/${pid}/task/${task}/children`).trim()
    const pids = children === '' ? [] : children.split(' ').map(Number)
    return pids.flatMap((child) => [child, ...descendants(child)])
  })
}

/** @param {number} pid */
function tasks(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

/**
 * Its own, and that of children that have ended.
 * @param {number} pid
 */
function cpuSeconds(pid) {
  const stat = read(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field] ?? 0), 0)
  return ticks / TICKS_PER_SECOND
}

/** @param {number} pid */
function memoryMb(pid) {
  const line = /^Pss:\s+(\d+)/m.exec(read(`/proc/${pid}/smaps_rollup`))
  return Number(line?.[1] ?? 0) / 1_024
}

/**
 * A process may end meanwhile.
 * @param {string} file
 */
function read(file) {
  try {
    return readText(file)
  } catch {
    return ''
  }
}
