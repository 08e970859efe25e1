import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir, totalmem } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  clearLongQueuePolicy,
  needsLongQueuePolicy,
  setLongQueuePolicy,
} from '../scripts/broker/long-queues.mjs'
import { PrivateBroker } from '../scripts/broker/private-broker.mjs'
import { requireRabbitmqSbin } from '../scripts/broker/rabbitmq-package.mjs'
import { inRoot } from '../scripts/paths.mjs'
import { findPostgresBin } from '../scripts/postgres/postgres-package.mjs'
import { PrivatePostgres } from '../scripts/postgres/private-postgres.mjs'
import { Refusal } from '../scripts/process/progress.mjs'
import { startChild } from './child.mjs'
import { startGateway } from './gateway.mjs'

/**
 * @typedef {{ sbin: string, brokerRoot?: string | undefined, main: string, ledger?: string | undefined,
 *   settings?: NodeJS.ProcessEnv, nodeArgs: (name: string) => readonly string[] }} Setup
 * @typedef {ReturnType<typeof startChild>} Load
 * @typedef {{ module: string, amqp: string, queueType: string }} Native of the build that is measured
 */

/** As a ledger: a server of the stage's own. `npm start` understands it likewise. */
export const PRIVATE_POSTGRES = 'postgres:'
const EXCHANGE = 'ojs.exchange.direct'
/** As many as the gateway's publish connection has; otherwise the ceiling would not be comparable. */
const CHANNELS = 4

/**
 * Everything that the rows of a profile are measured with: a fresh broker, a fresh gateway and the load
 * processes. `close` ends all of it, even after a start that failed half-way.
 */
export class Stage {
  #profile
  #name
  /** @type {Setup} */
  #setup
  /** @type {PrivateBroker} */
  #node
  #dir
  /** @type {NodeJS.ProcessEnv} */
  #env
  /** @type {Awaited<ReturnType<typeof startGateway>> | undefined} */
  #gateway
  #gatewayStarts = 0
  /** @type {(() => Promise<unknown>)[]} */
  #opened = []
  #queues = 0

  // Set by `open`.
  /** @type {string} */
  sdk
  /** @type {Native} */
  native
  /** Its URL; undefined: a file of SQLite. @type {string | undefined} */
  ledger
  /** @type {import('./meter.mjs').Watched} */
  watch
  /** @type {string} */
  url
  /** @type {string} */
  brokerVersion
  /** @type {Load} */
  raw
  /** @type {Record<'push' | 'latency' | 'flow' | 'get' | 'schedules' | 'drain' | 'worker', Load>} */
  http
  /** @type {Record<'worker' | 'producer' | 'fleet', Load>} */
  amqp

  /**
   * @param {string} profile
   * @param {string} name
   */
  constructor(profile, name = profile) {
    this.#profile = profile
    this.#name = name
    this.#dir = mkdtempSync(join(tmpdir(), `ojs-rabbitmq-bench-${name}-`))
  }

  /**
   * With this clone's build, and the RabbitMQ that is installed.
   * @param {Partial<Setup>} [given]
   */
  async openBuilt(given = {}) {
    const setup = { sbin: await requireRabbitmqSbin(), main: inRoot('dist', 'main.js') }
    await this.open({ ...setup, nodeArgs: () => [], ...given })
  }

  /** @param {Setup} setup */
  async open(setup) {
    this.#setup = setup
    const { main } = setup
    // Modules of the build that is measured.
    const moduleAt = (/** @type {string} */ path) => new URL(path, pathToFileURL(main)).href
    this.sdk = moduleAt('./sdk/index.js')
    const broker = this.#broker(setup)
    this.#opened.push(() => broker.kill9().then(() => broker.stop()))
    await broker.start()
    this.#node = broker
    const module = moduleAt('./worker/index.js')
    this.native = { module, amqp: broker.url(), queueType: this.#profile }
    this.watch = { broker: broker.pid }
    mkdirSync(join(this.#dir, 'gateway'))
    const url = setup.ledger === PRIVATE_POSTGRES ? await this.#startPostgres() : setup.ledger
    const ledger = url === undefined ? {} : { OJS_LEDGER: url }
    this.ledger = url
    this.#env = {
      OJS_AMQP_URL: broker.url(),
      OJS_QUEUE_TYPE: this.#profile,
      ...ledger,
      ...setup.settings,
    }
    this.#opened.push(() => this.stopGateway())
    await this.startGateway()
    this.raw = this.#child('raw-amqp')
    const connected = await this.raw.call('connect', { url: broker.url(), channelCount: CHANNELS })
    this.brokerVersion = connected.brokerVersion
    this.#startLoads()
    return this
  }

  /**
   * Sets the policy of `npm start` while `work` runs. `work` is told whether the policy was set.
   * @template T
   * @param {(isSet: boolean) => Promise<T>} work
   */
  async withLongQueuePolicy(work) {
    if (!needsLongQueuePolicy(this.#setup.sbin)) return await work(false)
    await setLongQueuePolicy(this.#node)
    const done = await work(true)
    // Skipped after an error, which ends the benchmark: if RabbitMQ is dead, this call would fail and hide
    // the error.
    await clearLongQueuePolicy(this.#node)
    return done
  }

  /** Starts the gateway, or starts it again after `stopGateway`: with the same ledger, but another URL. */
  async startGateway() {
    this.#gatewayStarts += 1
    const suffix = this.#gatewayStarts === 1 ? '' : `-${this.#gatewayStarts}`
    const nodeArgs = this.#setup.nodeArgs(`gateway-${this.#name}${suffix}`)
    const dir = join(this.#dir, 'gateway')
    this.#gateway = await startGateway({ main: this.#setup.main, nodeArgs, env: this.#env, dir })
    this.url = this.#gateway.url
    this.watch = { ...this.watch, gateway: this.#gateway.pid }
  }

  async stopGateway() {
    await this.#gateway?.stop()
    this.#gateway = undefined
    const { gateway, ...others } = this.watch
    this.watch = others
  }

  /**
   * Restarts the gateway with a ledger that knows `count` jobs, most of which have ended long ago.
   * @param {number} count
   */
  async fillLedger(count) {
    await this.stopGateway()
    const path = join(this.#dir, 'gateway', 'ledger.db')
    const modules = pathToFileURL(this.#setup.main).href
    await this.#child('fill-ledger').call('fill', { modules, path, count })
    await this.startGateway()
  }

  /**
   * Opens a second broker and gateway of the same profile, which end together with these.
   * @param {string} name
   * @param {Partial<Setup>} other
   */
  async another(name, other = {}) {
    const stage = new Stage(this.#profile, `${this.#profile}-${name}`)
    this.#opened.push(() => stage.close())
    return stage.open({ ...this.#setup, ...other })
  }

  /**
   * This stage if it has that ledger, or else another one.
   * @param {string} name
   * @param {string | undefined} ledger
   */
  async withLedger(name, ledger) {
    return this.#setup.ledger === ledger ? this : await this.another(name, { ledger })
  }

  /**
   * Creates a queue that the gateway has just declared, with one message of the gateway in it.
   * @param {string} [padding]
   */
  async newQueue(padding) {
    this.#queues += 1
    // All names have the same length, because the name is part of the message.
    const queue = `bench.${String(this.#queues).padStart(3, '0')}`
    await this.http.push.call('pushOne', { url: this.url, queue, padding })
    return queue
  }

  /**
   * From now on the ceiling publishes to `queue`, byte for byte the message that the gateway sent there.
   * @param {string} queue
   */
  sample(queue) {
    const brokerQueue = this.brokerQueue(queue)
    return this.raw.call('sample', { exchange: EXCHANGE, queue, brokerQueue })
  }

  /**
   * The queue's name in RabbitMQ.
   * @param {string} queue
   */
  brokerQueue(queue) {
    return `ojs.queue.${queue}`
  }

  /**
   * Empties the queue; resolves to the number of messages that were in it.
   * @param {string} queue
   * @returns {Promise<number>}
   */
  purge(queue) {
    return this.raw.call('purge', { brokerQueue: this.brokerQueue(queue) })
  }

  /**
   * The number of ready messages in the queue.
   * @param {string} queue
   * @returns {Promise<number>}
   */
  depth(queue) {
    return this.raw.call('depth', { brokerQueue: this.brokerQueue(queue) })
  }

  /**
   * Removes the oldest messages until about `keep` are left.
   * @param {string} queue
   * @param {number} keep
   */
  trim(queue, keep) {
    return this.raw.call('trim', { brokerQueue: this.brokerQueue(queue), keep })
  }

  /**
   * The number of the queue's control messages that no gateway has taken yet.
   * @param {string} queue
   * @returns {Promise<number>}
   */
  controlDepth(queue) {
    return this.raw.call('depth', { brokerQueue: `ojs.queue.control.${queue}` })
  }

  async close() {
    for (const end of this.#opened.reverse()) await end()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  /** As `npm start` starts it. */
  async #startPostgres() {
    const bin = findPostgresBin()
    if (bin === undefined)
      throw new Refusal('PostgreSQL is not installed: apt-get install postgresql')
    const dir = join(this.#dir, 'postgres')
    const server = new PrivatePostgres({ bin, dir, password: randomUUID() })
    this.#opened.push(() => server.stop())
    await server.start()
    this.watch = { ...this.watch, ledger: server.pid }
    return server.url()
  }

  /** @param {Setup} setup */
  #broker({ sbin, brokerRoot: root }) {
    // RabbitMQ's own defaults; `PrivateBroker` sets smaller values, for nodes that run tests.
    const conf = [
      `vm_memory_high_watermark.absolute = ${Math.round(0.4 * totalmem())}`,
      'raft.wal_max_size_bytes = 536870912',
    ].join('\n')
    const dir = join(this.#dir, 'rabbitmq')
    return new PrivateBroker({ sbin, ...(root && { root: resolve(root) }), dir, conf, erlArgs: '' })
  }

  #startLoads() {
    this.http = {
      push: this.#child('push'),
      latency: this.#child('fetch-latency'),
      flow: this.#child('flow'),
      get: this.#child('get-latency'),
      schedules: this.#child('schedules'),
      drain: this.#child('drain'),
      worker: this.#ourChild('sdk-worker'),
    }
    this.amqp = {
      worker: this.#ourChild('native-worker'),
      producer: this.#ourChild('native-producer'),
      fleet: this.#ourChild('fleet'),
    }
  }

  /**
   * A load process that runs code of the project, which is worth profiling.
   * @param {string} name
   */
  #ourChild(name) {
    return this.#child(name, this.#setup.nodeArgs(`${name}-${this.#name}`))
  }

  /**
   * @param {string} name
   * @param {readonly string[]} [nodeArgs]
   */
  #child(name, nodeArgs) {
    const child = startChild(new URL(`./load/${name}.mjs`, import.meta.url), nodeArgs)
    this.#opened.push(child.stop)
    return child
  }
}
