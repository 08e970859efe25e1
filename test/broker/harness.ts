import { type Channel, type ChannelModel, type ConfirmChannel, connect } from 'amqplib'
import { v7 } from 'uuid'
import type { Delivery, TakeRequest } from '../../src/broker/broker.ts'
import { Connection } from '../../src/broker/connection/connection.ts'
import type { ConnectionOptions } from '../../src/broker/connection/connection-options.ts'
import { Denials } from '../../src/broker/connection/permissions.ts'
import type { ConsumerChannel } from '../../src/broker/consume/consumer-channel.ts'
import { Deliveries, type DeliveriesDeps } from '../../src/broker/consume/deliveries.ts'
import { QueueConsumer } from '../../src/broker/consume/queue-consumer.ts'
import { createNames } from '../../src/broker/names.ts'
import { type BrokerObserver, SILENT_OBSERVER } from '../../src/broker/observer.ts'
import type { BrokerDeps, BrokerHooks, BrokerOptions } from '../../src/broker/options.ts'
import { RabbitBroker } from '../../src/broker/rabbit-broker.ts'
import {
  loadTopology,
  type Topology,
  type TopologyOptions,
} from '../../src/broker/topology/topology.ts'
import { systemClock } from '../../src/clock.ts'
import { freshRow, type JobRow, type NewJob } from '../../src/job/job.ts'
import { createLogger, type Logger, type LogLevel } from '../../src/logger.ts'
import { newJob } from '../support/gateway/jobs.ts'

export const logger = createLogger((process.env['OJS_TEST_LOG'] ?? 'silent') as LogLevel)

/** Deliveries over a connection that the test makes, or a real one; `over`: what matters to it. */
export function deliveriesOn(connection: object, over: Partial<DeliveriesDeps> = {}): Deliveries {
  return new Deliveries({
    connection: connection as Connection,
    denials: newDenials(),
    names: createNames(''),
    clock: systemClock(),
    logger,
    random: () => 0.5,
    observer: SILENT_OBSERVER,
    ...{
      prefetch: 32,
      maxConsumerChannels: 4,
      consumerPriority: 0,
      idleMs: 600_000,
      instance: 'i',
    },
    isReady: () => true,
    isPaused: () => false,
    lookUp: async () => 'exists',
    countConsumers: async () => new Map(),
    onQueueGone: () => {},
    ...over,
  })
}

export interface Seen {
  event: string
  args: readonly unknown[]
}

/** Records every event, and lets a test wait for those it needs. */
export class Recorder {
  readonly seen: Seen[] = []
  readonly observer: BrokerObserver
  readonly #waiting = new Set<() => void>()

  constructor() {
    const names = Object.keys(SILENT_OBSERVER)
    this.observer = Object.fromEntries(
      names.map((name) => [name, (...args: unknown[]) => this.note(name, ...args)]),
    ) as unknown as BrokerObserver
  }

  note(event: string, ...args: unknown[]): void {
    this.seen.push({ event, args })
    for (const check of [...this.#waiting]) check()
  }

  count(event: string, ...args: unknown[]): number {
    return this.all(event, ...args).length
  }

  all(event: string, ...args: unknown[]): Seen[] {
    return this.seen.filter(
      (seen) => seen.event === event && args.every((arg, i) => seen.args[i] === arg),
    )
  }

  /** Resolves when `event` was recorded `count` times since the beginning of the recording. */
  until(event: string, count = 1, ...args: unknown[]): Promise<void> {
    return this.untilTrue(() => this.count(event, ...args) >= count, `${count} × ${event}`)
  }

  /** Checks the condition again at every event. */
  untilTrue(condition: () => boolean, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(check)
        reject(new Error(`never: ${what}; heard ${JSON.stringify(this.seen.slice(-20))}`))
      }, 30_000)
      const check = () => {
        if (!condition()) return
        clearTimeout(timer)
        this.#waiting.delete(check)
        resolve()
      }
      this.#waiting.add(check)
      check()
    })
  }
}

export interface TestBroker {
  broker: RabbitBroker
  recorder: Recorder
  stop(): Promise<void>
}

export function options(amqpUrl: string, given: Partial<BrokerOptions> = {}): BrokerOptions {
  return {
    amqpUrls: [amqpUrl],
    prefix: '',
    queueType: 'classic',
    declare: 'lazy',
    queues: [],
    maxQueues: 1000,
    maxRetryQueues: 1000,
    retryQueueSettleMs: 0,
    publishTimeoutMs: 10_000,
    delayMode: 'ttl',
    consumerPriority: 0,
    topologyPath: null,
    ...given,
  }
}

/** Every hook in one object, which a test gives in part. */
export type AllHooks = BrokerHooks['queues'] &
  BrokerHooks['jobs'] &
  BrokerHooks['epochs'] &
  BrokerHooks['arrivals']

/** A started broker. Hooks that are not given are recorded, and answer as harmlessly as can be. */
export async function startBroker(
  amqpUrl: string,
  given: Partial<BrokerOptions> = {},
  hooks: Partial<AllHooks> = {},
  deps: Partial<BrokerDeps> = {},
): Promise<TestBroker> {
  const recorder = new Recorder()
  const broker = new RabbitBroker(options(amqpUrl, given), {
    clock: systemClock(),
    logger,
    random: Math.random,
    observer: recorder.observer,
    ...deps,
  })
  const all: AllHooks = {
    recordedQueues: () => [],
    availableJobs: async () => 0,
    claimableJobs: () => 0,
    onDrift: async () => 0,
    onQueueMissing: async (queue) => {
      recorder.note('onQueueMissing', queue)
      return 'declare'
    },
    isLedgerNew: () => false,
    all: async () => [],
    record: async () => {},
    identityOf: async () => null,
    recordIdentity: async (queue, identity) => recorder.note('recordIdentity', queue, identity),
    isUnwritten: () => false,
    onWritten: async (queue) => recorder.note('onWritten', queue),
    hasMessages: () => false,
    recordedRetryQueues: () => [],
    onRetryQueueDeclared: async (queue, delayMs) =>
      recorder.note('onRetryQueueDeclared', queue, delayMs),
    onRetryQueueMissing: async (queue, delayMs) =>
      recorder.note('onRetryQueueMissing', queue, delayMs),
    onDeadLetter: async (letter) => recorder.note('onDeadLetter', letter.id, letter),
    onScheduled: async (message) => {
      recorder.note('onScheduled', message.id, message)
      return 'handled'
    },
    onControl: async (message) => {
      recorder.note('onControl', message.type, message)
      return 'handled'
    },
    isPaused: () => false,
    onQueueFound: (queue) => recorder.note('onQueueFound', queue),
    onUp: () => recorder.note('onUp'),
    onConsumeUp: async () => recorder.note('onConsumeUp'),
    ...hooks,
  }
  broker.attach({ queues: all, jobs: all, epochs: all, arrivals: all })
  await broker.start()
  return { broker, recorder, stop: () => broker.stop(AbortSignal.timeout(15_000)) }
}

/** A started connection of the class under test. */
export async function startConnection(
  amqpUrl: string,
  given: Partial<ConnectionOptions> = {},
): Promise<Connection> {
  const connection = new Connection({
    name: 'publish',
    urls: [amqpUrl],
    connectionName: 'test',
    logger,
    random: () => 0.5,
    observer: SILENT_OBSERVER,
    ...given,
  })
  await connection.start()
  return connection
}

export function topologyWith(given: Partial<TopologyOptions> = {}): Topology {
  return loadTopology({ ...options(''), ...given })
}

/** Those of a part under test that is denied nothing, or whose denials no test asks for. */
export function newDenials(): Denials {
  const connection = { listen() {} }
  return new Denials(logger, { publish: connection, consume: connection })
}

export function row(given: Partial<NewJob> = {}, over: Partial<JobRow> = {}): JobRow {
  const job = newJob({ queue: 'email', ...given })
  return { ...freshRow(job, { generation: 0, outbox: 1, enqueuedAt: 1_700_000_000_500 }), ...over }
}

export function request(queues: readonly string[], given: Partial<TakeRequest> = {}): TakeRequest {
  return {
    queues,
    count: 1,
    waitMs: 10_000,
    hasClaimable: () => false,
    signal: new AbortController().signal,
    ...given,
  }
}

/** A queueConsumer of an existing queue whose consumers are the test's own. */
export function queueConsumerOf(
  queue: string,
  newConsumerChannel: () => ConsumerChannel,
  now: () => number = () => 0,
): QueueConsumer {
  const queueConsumer = new QueueConsumer({
    ...{ queue, newConsumerChannel, maxConsumerChannels: 64, prefetch: 32, idleMs: 2_000 },
    ...{ clock: { now, wall: now }, random: () => 0.5 },
  })
  queueConsumer.exists = true
  return queueConsumer
}

export function idsOf(deliveries: readonly Delivery[]): string[] {
  return deliveries.map((delivery) => delivery.id)
}

/** A plain client: what an administrator, a producer or a worker in another language would do. */
export interface Admin {
  model: ChannelModel
  channel: ConfirmChannel
  /** Publishes to the default exchange, confirmed. */
  publish(queue: string, ids: readonly string[], options?: object): Promise<void>
  /** Takes all ready messages out of the queue, and returns their ids in order. */
  takeAll(queue: string): Promise<string[]>
  close(): Promise<void>
}

export async function connectAdmin(amqpUrl: string): Promise<Admin> {
  const model = await connect(amqpUrl)
  model.on('error', () => {})
  const channel = await model.createConfirmChannel()
  channel.on('error', () => {})
  return {
    model,
    channel,
    publish: async (queue, ids, publishOptions = {}) => {
      for (const id of ids) {
        const content = Buffer.from(JSON.stringify({ id }))
        channel.sendToQueue(queue, content, { persistent: true, messageId: id, ...publishOptions })
      }
      await channel.waitForConfirms()
    },
    takeAll: async (queue) => {
      const ids: string[] = []
      for (;;) {
        const message = await channel.get(queue, { noAck: true })
        if (message === false) return ids
        ids.push(String(message.properties.messageId))
      }
    },
    close: async () => {
      await model.close().catch(() => {})
    },
  }
}

/** A separate channel, which RabbitMQ may close without closing `admin.channel`. */
export async function scratch(admin: Admin): Promise<Channel> {
  const channel = await admin.model.createChannel()
  channel.on('error', () => {})
  return channel
}

export function newIds(count: number): string[] {
  return Array.from({ length: count }, () => v7())
}

export function ofLogger(lines: string[]): Logger {
  const write = (fields: object, message: string) =>
    lines.push(JSON.stringify({ ...fields, message }))
  return { debug: write, info: write, warn: write, error: write }
}
