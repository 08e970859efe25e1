import { existsSync, readFileSync } from 'node:fs'
import { inRoot } from '../paths.mjs'
import { canInstallPackages } from '../process/debian-packages.mjs'
import { codeOf } from '../process/errors.mjs'
import { isPortFree } from '../process/ports.mjs'
import { Refusal, say, waitingFor } from '../process/progress.mjs'
import { hasDockerEngine, startDockerBroker } from './docker-broker.mjs'
import { inspectLocalBroker } from './local-broker.mjs'
import { startOwnNode } from './own-node.mjs'
import { findRabbitmqSbin, requireRabbitmqSbin } from './rabbitmq-package.mjs'

const STANDARD_PORT = 5672

/**
 * @typedef {object} Broker
 * @property {string} url
 * @property {string} origin where it comes from, for the user
 * @property {() => Promise<void>} stop
 * @property {() => Promise<void>} [exited] present, like `restart`, if the broker is ours and may end by itself
 * @property {(signal: AbortSignal) => Promise<void>} [restart]
 */

/**
 * Returns the broker for this run, from the first source that has one.
 * @param {AbortSignal} signal
 * @returns {Promise<Broker>}
 */
export async function findBroker(signal) {
  for (const source of SOURCES) {
    // After Ctrl-C nothing more is started or installed.
    signal.throwIfAborted()
    const broker = await source(signal)
    if (broker) return broker
  }
  throw new Refusal(NONE_FOUND)
}

/** @type {((signal: AbortSignal) => Promise<Broker | undefined>)[]} */
const SOURCES = [configuredBroker, localBroker, installedBroker, dockerBroker, debianBroker]

const OWN_BROKER = 'set OJS_AMQP_URL to a broker of your own, or install it yourself'

const NONE_FOUND = `No RabbitMQ found. Do one of these, then run npm start again:
  - point to one:       OJS_AMQP_URL=amqp://user:password@host:5672/%2Fojs npm start
  - install it:         sudo apt-get install rabbitmq-server   (or your system's package)
  - have Docker run it: docker compose up -d rabbitmq`

async function configuredBroker() {
  const { OJS_AMQP_URL, OJS_AMQP_URL_FILE, AMQP_URL } = process.env
  if (OJS_AMQP_URL && OJS_AMQP_URL_FILE)
    throw new Refusal('OJS_AMQP_URL and OJS_AMQP_URL_FILE are both set; set only one of them.')
  const url = OJS_AMQP_URL || (OJS_AMQP_URL_FILE && urlIn(OJS_AMQP_URL_FILE)) || AMQP_URL
  return url ? { url, origin: 'from OJS_AMQP_URL', stop: async () => {} } : undefined
}

/** @param {string} path */
function urlIn(path) {
  let url = ''
  try {
    url = readFileSync(path, 'utf8').trim()
  } catch (error) {
    throw new Refusal(`OJS_AMQP_URL_FILE: '${path}' cannot be read (${codeOf(error)}).`)
  }
  // Going on would find another broker than the intended one.
  if (url === '') throw new Refusal(`OJS_AMQP_URL_FILE: '${path}' is empty.`)
  return url
}

async function localBroker() {
  if (await isPortFree(STANDARD_PORT)) return undefined
  const inspect = () => inspectLocalBroker(STANDARD_PORT, process.env['OJS_PREFIX'])
  const { url, problem } = await waitingFor(`127.0.0.1:${STANDARD_PORT} to answer`, inspect)
  if (url) return { url, origin: `the one on 127.0.0.1:${STANDARD_PORT}`, stop: async () => {} }
  say(`Skipping 127.0.0.1:${STANDARD_PORT}: ${problem}.`)
  return undefined
}

/** @param {AbortSignal} signal */
async function installedBroker(signal) {
  const sbin = findRabbitmqSbin()
  return sbin ? startOwnNode(sbin, signal) : undefined
}

/** @param {AbortSignal} signal */
async function dockerBroker(signal) {
  if (!existsSync(inRoot('docker-compose.yml'))) return undefined
  const isThere = await waitingFor('a Docker engine to answer', () => hasDockerEngine(signal))
  return isThere ? startDockerBroker(signal) : undefined
}

/** @param {AbortSignal} signal */
async function debianBroker(signal) {
  if (!canInstallPackages()) return undefined
  const sbin = await requireRabbitmqSbin([], OWN_BROKER)
  return signal.aborted ? undefined : startOwnNode(sbin, signal)
}
