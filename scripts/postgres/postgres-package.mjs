import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { findExecutable, isExecutable } from '../process/run.mjs'

/** Debian has each version in a folder of its own, and not on the PATH. */
const DEBIAN_LIB = '/usr/lib/postgresql'

/**
 * Returns the folder of `postgres` and `initdb`, of the newest version; undefined if it is not installed.
 */
export function findPostgresBin(lib = DEBIAN_LIB) {
  const versions = existsSync(lib) ? readdirSync(lib).sort((a, b) => Number(b) - Number(a)) : []
  const onPath = findExecutable('initdb')
  const folders = [
    ...versions.map((version) => join(lib, version, 'bin')),
    ...(onPath ? [dirname(realpathSync(onPath))] : []),
  ]
  return folders.find((folder) => hasServer(folder))
}

/** @param {string} folder */
function hasServer(folder) {
  return ['postgres', 'initdb'].every((name) => isExecutable(join(folder, name)))
}
