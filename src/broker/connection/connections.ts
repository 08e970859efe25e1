/** The gateway's three connections: publish, consume, declare (docs/architecture.md §4.1). */
import type { BrokerWarning } from '../broker.ts'
import type { BrokerGauges, ConnectionName } from '../observer.ts'
import { channelWarnings } from './channel-limit.ts'
import { Connection } from './connection.ts'
import type { ConnectionOptions } from './connection-options.ts'

/**
 * When the network drops a connection silently, RabbitMQ keeps it for three heartbeats, and so holds on to
 * `ojs.system.owner` and every unacknowledged message: 180 s of 503 with the recommended 60 s.
 */
const HEARTBEAT_S = 10

/**
 * The gateway's connections: one for everything that publishes; one for consumers and one for declares, which
 * never publish, because a connection that has published once under an alarm gets no more deliveries or
 * declares (docs/architecture.md §4.1). A fourth, opened on demand, for answers to direct reply addresses
 * (`publisher.ts`). A fifth for events, if they are published: RabbitMQ slows the connection of a publisher whose
 * queues are slow, and those are anybody's.
 */
export class Connections {
  readonly publish: Connection
  readonly consume: Connection
  readonly declare: Connection
  readonly reply: Connection
  readonly events: Connection

  /** Opens no connection. */
  constructor(shared: Pick<ConnectionOptions, 'urls' | 'logger' | 'random' | 'observer'>) {
    const connect = (name: ConnectionName, behind: Connection[] = []) =>
      new Connection({
        ...shared,
        name,
        connectionName: `ojs-rabbitmq ${name}`,
        heartbeatS: HEARTBEAT_S,
        isPrompt: name === 'publish',
        behind,
      })
    this.publish = connect('publish')
    this.consume = connect('consume')
    this.declare = connect('declare')
    this.reply = connect('reply', this.main)
    this.events = connect('events', this.main)
  }

  /** The connections without which nothing is served. */
  get main(): Connection[] {
    return [this.publish, this.consume, this.declare]
  }

  get all(): Connection[] {
    return [...this.main, this.reply, this.events]
  }

  /** Resolves after the first attempt of each. True: all are up. */
  async start(): Promise<boolean> {
    await Promise.all(this.main.map((connection) => connection.start()))
    return this.main.every((connection) => connection.isUp)
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((connection) => connection.close()))
  }

  warnings(): BrokerWarning[] {
    return [...channelWarnings(this.all), ...this.#withoutDeclare()]
  }

  /** Jobs flow without the declare connection, so the broker's status does not show its loss. */
  #withoutDeclare(): BrokerWarning[] {
    const { isUp, downReason: reason } = this.declare
    if (isUp || !this.publish.isUp) return []
    const message = `The declare connection is down, so that no new queue can be used: ${reason}`
    return [{ code: 'declare_connection_down', message, details: { reason } }]
  }

  gauges(): ConnectionGauges {
    return connectionGauges(this.all, this.publish)
  }
}

type ConnectionGauges = Pick<BrokerGauges, 'connectionsActive' | 'channelsActive' | 'blocked'>

/** `publish`: the connection among them that RabbitMQ blocks. */
export function connectionGauges(
  connections: readonly Connection[],
  publish: Connection,
): ConnectionGauges {
  return {
    connectionsActive: connections.filter(({ isUp }) => isUp).length,
    channelsActive: connections.reduce((sum, { channelsActive }) => sum + channelsActive, 0),
    blocked: publish.blockedReason !== null,
  }
}
