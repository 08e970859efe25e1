import { linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { codeOf, messageOf } from './errors.mjs'
import { isAlive } from './processes.mjs'
import { Refusal } from './progress.mjs'
import { readText } from './read-text.mjs'

/**
 * Taken, or held by a process that lives.
 *
 * @typedef {{ release: () => void, holder?: never, isEnding?: never }
 *   | { release?: never, holder: number, isEnding: boolean }} Lock
 */

/**
 * Takes a lock file on behalf of several processes: the first is the owner, the others only tidy up after it.
 * Returns `{ release }`, or `{ holder, isEnding }` with the pid of a process that still holds the lock;
 * `isEnding` if the owner has ended. A lock whose processes have all ended is ignored, even if another
 * process has got one of their pids.
 * @param {string} file
 * @param {readonly number[]} pids
 * @returns {Lock}
 */
export function takeLock(file, pids) {
  try {
    mkdirSync(dirname(file), { recursive: true })
    return take(file, pids)
  } catch (error) {
    // Usually the folder is read-only or belongs to another user.
    throw new Refusal(`${dirname(file)} cannot be written: ${messageOf(error)}`)
  }
}

/**
 * @param {string} file
 * @param {readonly number[]} pids
 * @returns {Lock}
 */
function take(file, pids) {
  const content = pids.map((pid) => `${identityOf(pid)}\n`).join('')
  for (;;) {
    if (create(file, content)) return { release: () => rmSync(file, { force: true }) }
    const found = readText(file)
    const holders = found.split('\n').map(livePid)
    const index = holders.findIndex((pid) => pid !== undefined)
    const holder = holders[index]
    if (holder !== undefined) return { holder, isEnding: index > 0 }
    removeStale(file, found)
  }
}

/**
 * Creates the lock file; false if it exists. A hard link makes it appear with its content: another start
 * would take an empty file for stale.
 * @param {string} file
 * @param {string} content
 */
function create(file, content) {
  const own = `${file}.${process.pid}`
  writeFileSync(own, content)
  try {
    linkSync(own, file)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    if (!NO_LINKS.has(String(codeOf(error)))) throw error
    return createWithoutLink(file, content)
  } finally {
    rmSync(own, { force: true })
  }
}

/** The errors of file systems without hard links, such as exFAT and VirtualBox's shared folders. */
const NO_LINKS = new Set(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP'])

/**
 * @param {string} file
 * @param {string} content
 */
function createWithoutLink(file, content) {
  try {
    writeFileSync(file, content, { flag: 'wx' })
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

/**
 * Removes a stale lock. If another start has put its own lock there by now, that one is put back.
 * @param {string} file
 * @param {string} stale
 */
function removeStale(file, stale) {
  const aside = `${file}.${process.pid}.stale`
  try {
    renameSync(file, aside)
    const found = readText(aside)
    if (found !== stale) create(file, found)
  } catch (error) {
    // Another start has removed the stale lock.
    if (codeOf(error) !== 'ENOENT') throw error
  }
  rmSync(aside, { force: true })
}

/** @param {string} identity */
function livePid(identity) {
  const pid = Number.parseInt(identity, 10)
  return pid > 0 && isAlive(pid) && identityOf(pid) === identity ? pid : undefined
}

/**
 * The pid and, on Linux, the start time of that process: together they identify a process for ever.
 * @param {number} pid
 */
function identityOf(pid) {
  // Field 22 of the line. The second field, in brackets, may hold spaces; no later field does.
  const stat = readText(`/proc/${pid}/stat`)
  const startedAt = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  return startedAt ? `${pid} ${startedAt}` : `${pid}`
}
