/** What a round costs: CPU and memory of processes with all their descendants, from `/proc`. */
import { readText } from '../../scripts/process/read-text.mjs'
import { familyOf, familySeconds } from '../family.mjs'

/**
 * CPU seconds so far, and MiB of memory now (shared pages are divided), by the names of the roots.
 * @param {Record<string, number>} roots process ids
 */
export function costOf(roots) {
  return Object.fromEntries(
    Object.entries(roots).map(([name, pid]) => {
      const mb = familyOf(pid).reduce((sum, each) => sum + memoryMb(each), 0)
      return [name, { seconds: familySeconds(pid), mb }]
    }),
  )
}

/** @param {number} pid */
function memoryMb(pid) {
  const line = /^Pss:\s+(\d+)/m.exec(readText(`/proc/${pid}/smaps_rollup`))
  return Number(line?.[1] ?? 0) / 1_024
}
