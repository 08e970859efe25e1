import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { PrivateBroker } from '../scripts/private-broker.mjs'
import { startChild } from './child.mjs'
import { startGateway } from './gateway.mjs'

const EXCHANGE = 'ojs.exchange.direct'
/** Of the gateway's publish connection; a ceiling with fewer or more would be another machine. */
const CHANNELS = 4

/**
 * Everything that one profile's rows are measured with: a fresh broker, a fresh gateway and the
 * load processes. `close` ends all of it, also after a start that failed half-way.
 */
export class Stage {
  #profile
  #name
  #setup
  #dir
  #opened = []
  #queues = 0

  constructor(profile, name = profile) {
    this.#profile = profile
    this.#name = name
    this.#dir = mkdtempSync(join(tmpdir(), `ojs-rabbitmq-bench-${name}-`))
  }

  async open(setup) {
    this.#setup = setup
    const { sbin, main } = setup
    // Of the build that is measured.
    this.sdk = new URL('./sdk/index.js', pathToFileURL(main)).href
    const nodeArgs = setup.nodeArgs(this.#name)
    const broker = this.#broker(sbin)
    this.#opened.push(() => broker.kill9().then(() => broker.stop()))
    await broker.start()
    const dir = join(this.#dir, 'gateway')
    mkdirSync(dir)
    const env = { OJS_AMQP_URL: broker.url(), OJS_QUEUE_TYPE: this.#profile }
    const gateway = await startGateway({ main, nodeArgs, env, dir })
    this.#opened.push(gateway.stop)
    this.url = gateway.url
    this.watch = { gateway: gateway.pid, broker: broker.pid }
    this.raw = this.#child('raw-amqp')
    const connected = await this.raw.call('connect', { url: broker.url(), channelCount: CHANNELS })
    this.brokerVersion = connected.brokerVersion
    this.http = { push: this.#child('push'), latency: this.#child('fetch-latency') }
    this.http.flow = this.#child('flow')
    this.http.drain = this.#child('drain')
    this.http.worker = this.#child('sdk-worker')
    return this
  }

  /** A second broker and gateway of the same profile; they end with these. */
  async another(name) {
    const stage = new Stage(this.#profile, `${this.#profile}-${name}`)
    this.#opened.push(() => stage.close())
    return stage.open(this.#setup)
  }

  /** A queue that the gateway has just declared, with one message of its own in it. */
  async newQueue(padding) {
    this.#queues += 1
    // All names have the same length: they are part of the message.
    const queue = `bench.${String(this.#queues).padStart(3, '0')}`
    await this.http.push.call('pushOne', { url: this.url, queue, padding })
    return queue
  }

  /** From now on the ceiling publishes to `queue`, byte for byte what the gateway sent there. */
  sample(queue) {
    return this.raw.call('sample', { exchange: EXCHANGE, queue, brokerQueue: brokerQueue(queue) })
  }

  /** The queue's name in RabbitMQ. */
  brokerQueue(queue) {
    return brokerQueue(queue)
  }

  /** Empties it and answers how many messages were in it. */
  purge(queue) {
    return this.raw.call('purge', { brokerQueue: brokerQueue(queue) })
  }

  /** How many messages are ready in it. */
  depth(queue) {
    return this.raw.call('depth', { brokerQueue: brokerQueue(queue) })
  }

  /** Takes the oldest messages away until about `keep` are left. */
  trim(queue, keep) {
    return this.raw.call('trim', { brokerQueue: brokerQueue(queue), keep })
  }

  async close() {
    for (const end of this.#opened.reverse()) await end()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  #broker(sbin) {
    // RabbitMQ's own defaults, where the engine has smaller ones for nodes that run tests.
    const conf = [
      `vm_memory_high_watermark.absolute = ${Math.round(0.4 * totalmem())}`,
      'raft.wal_max_size_bytes = 536870912',
    ].join('\n')
    return new PrivateBroker({ sbin, dir: join(this.#dir, 'rabbitmq'), conf, erlArgs: '' })
  }

  #child(name) {
    const child = startChild(new URL(`./load/${name}.mjs`, import.meta.url))
    this.#opened.push(child.stop)
    return child
  }
}

function brokerQueue(queue) {
  return `ojs.queue.${queue}`
}
