import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { Refusal, say, waitingFor } from './progress.mjs'
import { findExecutable, run, tail } from './run.mjs'

const POLICY = '/usr/sbin/policy-rc.d'
const SAVED = `${POLICY}.before-ojs-rabbitmq`
const MARK = 'written by ojs-rabbitmq'
/** Longer than any installation takes. */
const DENIED_FOR_S = 3600

/** True where `installPackages` can work: root on a Debian (or a descendant of it). */
export function canInstallPackages() {
  return (
    process.getuid?.() === 0 &&
    existsSync('/etc/debian_version') &&
    findExecutable('apt-get') !== undefined
  )
}

/**
 * Installs Debian packages and starts none of their services: RabbitMQ's package would otherwise
 * run a system-wide broker on 0.0.0.0:5672 (and its epmd on 4369), now and after every reboot.
 */
export async function installPackages(names) {
  say(`Installing ${names.join(', ')} from the Debian archive (no system service is started).`)
  const disableNewServices = await noteServices()
  const restore = denyServices()
  try {
    await waitingFor(`apt-get to install ${names.join(', ')}`, () => aptInstall(names))
  } finally {
    restore()
  }
  await disableNewServices()
}

async function aptInstall(names) {
  const install = ['install', '-y', '-q', '--no-install-recommends', ...names]
  let result = await apt(install)
  // The usual reason is a machine whose package lists are empty (container images) or outdated.
  if (result.code !== 0) {
    const update = await apt(['update', '-q'])
    result = update.code === 0 ? await apt(install) : update
  }
  if (result.code !== 0) throw new Refusal(`apt-get failed:\n${tail(result.output)}`)
}

function apt(args) {
  return run('apt-get', ['-o', 'DPkg::Lock::Timeout=120', ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' },
    // In a session of its own: Ctrl-C must not leave dpkg half way through a package.
    detached: true,
  })
}

/**
 * Starts no service until `expiresAt` (seconds since the epoch). From then on it does what `saved`
 * does, which it has taken the place of, or nothing: this run may be killed before it tidies up, and
 * a machine on which no package can start its service is not what anybody has asked for.
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
 * policy-rc.d is what invoke-rc.d and deb-systemd-invoke ask before they start anything. What was
 * there is moved aside and put back; a copy left by a killed run is put back by the next one.
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
 * The packages enable their services, which would start them at the next boot: answers what undoes
 * that. A service that is there before the installation is somebody's own and stays as it is.
 */
async function noteServices() {
  // For who boots without systemd; epmd has none.
  const hadScript = existsSync('/etc/init.d/rabbitmq-server')
  const states = await Promise.all(UNITS.map((unit) => run('systemctl', ['is-enabled', unit])))
  const added = UNITS.filter((_unit, index) => states[index].code !== 0)
  return async () => {
    for (const unit of added) await run('systemctl', ['disable', unit])
    if (!hadScript) await run('update-rc.d', ['rabbitmq-server', 'disable'])
  }
}

const UNITS = ['rabbitmq-server.service', 'epmd.service', 'epmd.socket']
