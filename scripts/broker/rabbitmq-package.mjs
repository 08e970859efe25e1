import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { canInstallPackages, installPackages } from '../process/debian-packages.mjs'
import { Refusal } from '../process/progress.mjs'
import { findExecutable, isExecutable } from '../process/run.mjs'

const DEBIAN_LIB = '/usr/lib/rabbitmq/lib'

/**
 * Returns the folder with RabbitMQ's own scripts; undefined if it is not installed. Not Debian's
 * /usr/sbin/rabbitmq-server: that is a wrapper which insists on root and switches users. `root`: the root
 * folder of another Debian to look in; the path that is returned is the one inside of it.
 */
export function findRabbitmqSbin(root = '/') {
  const lib = join(root, DEBIAN_LIB)
  const unpacked = existsSync(lib)
    ? readdirSync(lib)
        .filter((name) => name.startsWith('rabbitmq_server-'))
        .map((name) => join(DEBIAN_LIB, name, 'sbin'))
    : []
  const found = unpacked.find((folder) => isExecutable(join(root, folder, 'rabbitmq-server')))
  return found && findEpmd() ? found : undefined
}

/** Finds epmd, Erlang's port mapper. Each private node runs its own, so that it can be ended by its pid. */
export function findEpmd() {
  return findOfErlang('epmd')
}

/** Finds erl_call, which calls functions in a running node. It belongs to Erlang, as epmd does. */
export function findErlCall() {
  return findOfErlang('erl_call')
}

/** @param {string} name */
function findOfErlang(name) {
  return findExecutable(name, [
    '/usr/lib/erlang/bin',
    '/usr/lib64/erlang/bin',
    '/usr/local/lib/erlang/bin',
  ])
}

/**
 * Returns the folder of the scripts; installs the Debian package first if needed and possible.
 * @param {readonly string[]} alsoInstall
 * @param {string} [toAvoidIt] what the user can do instead of having packages installed
 */
export async function requireRabbitmqSbin(alsoInstall = [], toAvoidIt) {
  const missing = [...(findRabbitmqSbin() ? [] : ['rabbitmq-server']), ...alsoInstall]
  if (missing.length > 0) {
    if (!canInstallPackages()) {
      throw new Refusal(
        `Missing: ${missing.join(', ')}. As root on Debian this command installs them; otherwise: ` +
          `sudo apt-get install --no-install-recommends ${missing.join(' ')}`,
      )
    }
    await installPackages(missing, toAvoidIt)
  }
  const sbin = findRabbitmqSbin()
  if (!sbin) throw new Refusal(`rabbitmq-server is installed, but not under ${DEBIAN_LIB}`)
  return sbin
}
