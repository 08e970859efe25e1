import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { requireRabbitmqSbin } from '../broker/rabbitmq-package.mjs'
import { findPostgresBin } from '../postgres/postgres-package.mjs'
import { canInstallPackages, installPackages } from '../process/debian-packages.mjs'
import { messageOf } from '../process/errors.mjs'
import { say } from '../process/progress.mjs'
import { findExecutable, isExecutable, run } from '../process/run.mjs'
import {
  DEBIAN_CHROMIUM,
  DEBIAN_GO,
  DEBIAN_GOPATH,
  DEBIAN_PROMETHEUS,
  DEBIAN_PYTHON,
} from './environment.mjs'

/**
 * Installs the Debian packages that the tests use: the broker; pika, for a foreign client; curl and jq, for
 * the example session of seed 001 (a stand-in replaces a missing jq); for the services tests also Go and its
 * AMQP client, for the example in Go, Prometheus, for the dashboards, and PostgreSQL, for the ledger on it;
 * Chromium, for the console. Returns the folder of RabbitMQ's scripts.
 * @param {{ go: boolean, chromium: boolean, postgres: boolean }} needs
 */
export async function providePackages({ go, chromium, postgres }) {
  const hasPika = (await run(DEBIAN_PYTHON, ['-c', 'import pika'])).code === 0
  const missing = [
    ...(hasPika ? [] : ['python3-pika']),
    ...(findExecutable('curl') ? [] : ['curl']),
    ...(findExecutable('openssl') ? [] : ['openssl']),
    ...(go ? missingForGo() : []),
    ...(go && !isExecutable(DEBIAN_PROMETHEUS) ? ['prometheus'] : []),
    ...(postgres && !findPostgresBin() ? ['postgresql'] : []),
    ...(chromium && !isExecutable(DEBIAN_CHROMIUM) ? ['chromium'] : []),
  ]
  const sbin = await requireRabbitmqSbin(missing)
  await provideJq()
  return sbin
}

/** jq is optional: without it, e.g. on a machine without a network, the tests run all the same. */
async function provideJq() {
  if (findExecutable('jq') || !canInstallPackages()) return
  try {
    await installPackages(['jq'])
  } catch (error) {
    say(`jq could not be installed; a stand-in is used instead. ${messageOf(error)}`)
  }
}

function missingForGo() {
  const client = join(DEBIAN_GOPATH, 'src', 'github.com', 'rabbitmq', 'amqp091-go')
  return [
    ...(isExecutable(DEBIAN_GO) ? [] : ['golang-go']),
    ...(existsSync(client) ? [] : ['golang-github-rabbitmq-amqp091-go-dev']),
  ]
}
