import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isAlive } from './processes.mjs'

/**
 * Takes a lock file in the name of several processes: the first is the owner, the others only tidy
 * up after it. Answers `{ release }`, or `{ holder, isEnding }` with a pid that still has it;
 * `isEnding` when the owner itself is gone. A lock whose processes are all gone is ignored, also
 * when a pid of it belongs to somebody else by now.
 */
export function takeLock(file, pids) {
  mkdirSync(dirname(file), { recursive: true })
  const content = pids.map((pid) => `${identityOf(pid)}\n`).join('')
  for (;;) {
    try {
      writeFileSync(file, content, { flag: 'wx' })
      return { release: () => rmSync(file, { force: true }) }
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    const holders = readText(file).split('\n').map(livePid)
    const index = holders.findIndex((pid) => pid !== undefined)
    if (index >= 0) return { holder: holders[index], isEnding: index > 0 }
    rmSync(file, { force: true })
  }
}

function livePid(identity) {
  const pid = Number.parseInt(identity, 10)
  return pid > 0 && isAlive(pid) && identityOf(pid) === identity ? pid : undefined
}

/** The pid and, on Linux, when that process started: together they name one process for ever. */
function identityOf(pid) {
  // Field 22 of the line; the second field may hold spaces, but nothing after its bracket does.
  const stat = readText(`/proc/${pid}/stat`)
  const startedAt = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  return startedAt ? `${pid} ${startedAt}` : `${pid}`
}

function readText(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
