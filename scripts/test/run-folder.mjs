import {
  accessSync,
  constants,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { availableMemory, pid } from 'node:process'

const SHARED_MEMORY = '/dev/shm'
const NAME = /^ojs-rabbitmq-test-(\d+)-/
/** See `man 2 statfs`. */
const TMPFS_MAGIC = 0x01021994

/**
 * Makes the folder for everything that a test run writes: in memory if there is room for `bytes` and as much
 * again for the processes, else on disk. The tests kill processes and never the machine, so nothing that they
 * prove depends on a disk, while a sixth of the CPU of a run went into writing to one. If `TMPDIR` is set, the
 * folder is made there.
 * @param {number} bytes
 */
export function makeRunFolder(bytes, memory = SHARED_MEMORY) {
  if (process.env['TMPDIR'] || !hasRoom(memory, bytes)) return makeIn(tmpdir())
  removeLeftovers(memory)
  const dir = makeIn(memory)
  if (runsPrograms(dir)) return dir
  rmSync(dir, { recursive: true })
  return makeIn(tmpdir())
}

/** @param {string} parent */
function makeIn(parent) {
  return mkdtempSync(join(parent, `ojs-rabbitmq-test-${pid}-`))
}

/**
 * @param {string} folder
 * @param {number} bytes
 */
function hasRoom(folder, bytes) {
  try {
    accessSync(folder, constants.W_OK)
    const { type, bavail, bsize } = statfsSync(folder)
    return type === TMPFS_MAGIC && bavail * bsize >= bytes && availableMemory() >= 2 * bytes
  } catch {
    return false // There is no such folder, or it may not be used.
  }
}

/**
 * A run that was killed leaves its folder behind, which would hold memory until the next boot.
 * @param {string} folder
 */
function removeLeftovers(folder) {
  for (const name of readdirSync(folder)) {
    const [, owner] = NAME.exec(name) ?? []
    if (owner === undefined || existsSync(`/proc/${owner}`)) continue
    try {
      rmSync(join(folder, name), { recursive: true, force: true })
    } catch {
      // Another user's.
    }
  }
}

/**
 * False on a file system that is mounted with `noexec`, as /dev/shm is in most containers.
 * @param {string} dir
 */
function runsPrograms(dir) {
  const program = join(dir, 'program')
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 })
  try {
    accessSync(program, constants.X_OK)
    return true
  } catch {
    return false
  } finally {
    rmSync(program)
  }
}
