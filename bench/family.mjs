/** Processes with all their descendants, from `/proc`: PostgreSQL has one for each connection. */
import { readdirSync } from 'node:fs'
import { readText } from '../scripts/process/read-text.mjs'

/** Linux reports CPU time in hundredths of a second to every program (USER_HZ). */
export const TICKS_PER_SECOND = 100

/**
 * @param {number} pid
 * @returns {number[]}
 */
export function familyOf(pid) {
  return [pid, ...childrenOf(pid).flatMap(familyOf)]
}

/** @param {number} pid */
function childrenOf(pid) {
  return tasks(pid).flatMap((task) => {
    const children = readText(`/proc/${pid}/task/${task}/children`).trim()
    return children === '' ? [] : children.split(' ').map(Number)
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
 * CPU seconds so far of the process, of its descendants, and of those of them that have ended; NaN without `/proc`.
 * @param {number} pid
 */
export function familySeconds(pid) {
  const [own = Number.NaN, ...others] = familyOf(pid).map(cpuSeconds)
  // Others may end meanwhile.
  return others.filter(Number.isFinite).reduce((sum, each) => sum + each, own)
}

/** @param {number} pid */
function cpuSeconds(pid) {
  const stat = readText(`/proc/${pid}/stat`)
  // Fields 14 to 17 (utime, stime, and those of children), counted after the command name, which may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0)
  return ticks / TICKS_PER_SECOND
}
