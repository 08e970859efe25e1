import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { Refusal, say, waitingFor } from './progress.mjs'
import { findExecutable, run, tail } from './run.mjs'

const POLICY = '/usr/sbin/policy-rc.d'
const SAVED = `${POLICY}.before-ojs-rabbitmq`
const MARK = 'written by ojs-rabbitmq'
const INSTALL_BEFOREHAND = 'install it yourself, or run this as another user than root'
/** Longer than any installation takes. */
const DENIED_FOR_S = 3600

/** True if `installPackages` can work: as root on Debian or a descendant of it. */
export function canInstallPackages() {
  return (
    process.getuid?.() === 0 &&
    existsSync('/etc/debian_version') &&
    findExecutable('apt-get') !== undefined
  )
}

/**
 * Installs Debian packages without starting their services. RabbitMQ's package would otherwise run a
 * system-wide broker on 0.0.0.0:5672 (and its epmd on 4369), now and after every reboot. Says so beforehand,
 * but does not ask: a script has nobody to answer.
 * @param {readonly string[]} names
 * @param {string} [toAvoidIt] what the user can do instead
 */
export async function installPackages(names, toAvoidIt) {
  say(noticeOf(names, toAvoidIt))
  const disableNewServices = await noteServices()
  const restore = denyServices()
  try {
    await waitingFor(`apt-get to install ${names.join(', ')}`, () => aptInstall(names))
  } finally {
    restore()
  }
  await disableNewServices()
}

/**
 * What is about to be changed on the user's machine, and how to prevent that.
 * @param {readonly string[]} names
 */
function noticeOf(names, toAvoidIt = INSTALL_BEFOREHAND) {
  return `Installing Debian's ${names.join(', ')} as root (apt-get; starts no service). To avoid it: ${toAvoidIt}.`
}

/** @param {readonly string[]} names */
async function aptInstall(names) {
  const install = ['install', '-y', '-q', '--no-install-recommends', ...names]
  let result = await apt(install)
  // The usual reason: the package lists are empty, as in container images, or outdated.
  if (result.code !== 0) {
    const update = await apt(['update', '-q'])
    result = update.code === 0 ? await apt(install) : update
  }
  if (result.code !== 0) throw new Refusal(`apt-get failed:\n${tail(result.output)}`)
}

/** @param {readonly string[]} args */
function apt(args) {
  return run('apt-get', ['-o', 'DPkg::Lock::Timeout=120', ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' },
    // In a session of its own, so that Ctrl-C does not leave dpkg half way through a package.
    detached: true,
  })
}

/**
 * A policy script that lets no service start until `expiresAt` (seconds since the epoch). After that it runs
 * `saved`, the script that it replaces, or else allows everything: if this run is killed before it restores
 * `saved`, the machine must not be left unable to start the services of its packages.
 * @param {number} expiresAt
 * @param {string} saved
 */
export function denyingPolicy(expiresAt, saved = SAVED) {
  return `#!/bin/sh
# ${MARK} for one package installation: start no service
[ "$(date +%s)" -lt ${expiresAt} ] && exit 101
[ -x '${saved}' ] && exec '${saved}' "$@"
exit 0
`
}

/**
 * invoke-rc.d and deb-systemd-invoke ask policy-rc.d before they start a service. An existing script is moved
 * aside and put back later; if this run is killed, the next run puts it back.
 */
function denyServices() {
  if (existsSync(SAVED)) renameSync(SAVED, POLICY)
  const isOurs = existsSync(POLICY) && readFileSync(POLICY, 'utf8').includes(MARK)
  if (existsSync(POLICY) && !isOurs) renameSync(POLICY, SAVED)
  writeFileSync(POLICY, denyingPolicy(Math.ceil(Date.now() / 1000) + DENIED_FOR_S))
  chmodSync(POLICY, 0o755)
  return () => {
    if (existsSync(SAVED)) renameSync(SAVED, POLICY)
    else rmSync(POLICY, { force: true })
  }
}

/**
 * The packages enable their services, so that these would start at the next boot. Returns a function that
 * undoes this. A service that exists before the installation belongs to somebody else and stays as it is.
 */
async function noteServices() {
  // For machines that boot without systemd. epmd has no script.
  const scripts = SCRIPTS.filter((name) => !existsSync(`/etc/init.d/${name}`))
  const states = await Promise.all(UNITS.map((unit) => run('systemctl', ['is-enabled', unit])))
  const added = UNITS.filter((_unit, index) => states[index]?.code !== 0)
  return async () => {
    for (const unit of added) await run('systemctl', ['disable', unit])
    for (const name of scripts)
      if (existsSync(`/etc/init.d/${name}`)) await run('update-rc.d', [name, 'disable'])
  }
}

const UNITS = [
  'rabbitmq-server.service',
  'epmd.service',
  'epmd.socket',
  'prometheus.service',
  'postgresql.service',
]
const SCRIPTS = ['rabbitmq-server', 'prometheus', 'postgresql']
