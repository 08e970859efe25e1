import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isAlive } from './processes.mjs'
import { Refusal } from './progress.mjs'

/**
 * Takes a lock file in the name of several processes: the first is the owner, the others only tidy
 * up after it. Answers `{ release }`, or `{ holder, isEnding }` with a pid that still has it;
 * `isEnding` when the owner itself is gone. A lock whose processes are all gone is ignored, also
 * when a pid of it belongs to somebody else by now.
 */
export function takeLock(file, pids) {
  try {
    mkdirSync(dirname(file), { recursive: true })
    return take(file, pids)
  } catch (error) {
    // Mostly a folder that is read-only, or somebody else's.
    throw new Refusal(`${dirname(file)} cannot be written: ${error.message}`)
  }
}

function take(file, pids) {
  const content = pids.map((pid) => `${identityOf(pid)}\n`).join('')
  for (;;) {
    if (create(file, content)) return { release: () => rmSync(file, { force: true }) }
    const found = readText(file)
    const holders = found.split('\n').map(livePid)
    const index = holders.findIndex((pid) => pid !== undefined)
    if (index >= 0) return { holder: holders[index], isEnding: index > 0 }
    removeStale(file, found)
  }
}

/** False: it is there. Never seen without its content, or another start would take it for stale. */
function create(file, content) {
  const own = `${file}.${process.pid}`
  writeFileSync(own, content)
  try {
    linkSync(own, file)
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    if (!NO_LINKS.has(error.code)) throw error
    return createWithoutLink(file, content)
  } finally {
    rmSync(own, { force: true })
  }
}

/** Of file systems such as exFAT and VirtualBox's shared folders. */
const NO_LINKS = new Set(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP'])

function createWithoutLink(file, content) {
  try {
    writeFileSync(file, content, { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
}

/** Another start may have found the same one, and have its own lock there by now: that stays. */
function removeStale(file, stale) {
  const aside = `${file}.${process.pid}.stale`
  try {
    renameSync(file, aside)
    if (readText(aside) !== stale) linkSync(aside, file)
  } catch (error) {
    // Whoever else was there removed it, or has taken it.
    if (error.code !== 'ENOENT' && error.code !== 'EEXIST') throw error
  }
  rmSync(aside, { force: true })
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
