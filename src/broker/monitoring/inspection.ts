/** Part of the `Broker` contract: what RabbitMQ has, for people to read. */
import type { JobRow } from '../../job/job.ts'

/** A message as it would be published now. */
export interface OutgoingView {
  exchange: string
  routingKey: string
  /** AMQP's properties but the headers, by the names of the protocol. */
  properties: Readonly<Record<string, string | number | boolean>>
  headers: Readonly<Record<string, unknown>>
  /** Text of the body. */
  body: string
  bytes: number
}

/** What is known of RabbitMQ through its management API (`OJS_MANAGEMENT_URL`), if it was asked. */
export type ManagementState =
  | { state: 'connected' }
  | { state: 'not-configured' }
  /** The user may not read it. */
  | { state: 'denied' }
  | { state: 'unavailable'; message: string }

/** A list of RabbitMQ's, and how many there are in all; null: the user may not read it. */
export type Listed<T> = { items: readonly T[]; total: number } | null

export interface ServerView {
  virtualHost: string
  /** '' while there is no connection. */
  version: string
  /** The gateway's own. `reason`: why it is down, or blocked. */
  own: readonly { name: string; isUp: boolean; channels: number; reason: string | null }[]
  management: ManagementState
  /** Null without the management API. Members that RabbitMQ does not tell are null. */
  details: ServerDetails | null
}

export interface ServerDetails {
  clusterName: string | null
  erlangVersion: string | null
  nodes: Listed<NodeView>
  connections: Listed<ConnectionView>
  channels: Listed<ChannelView>
  policies: Listed<PolicyView>
}

export interface NodeView {
  name: string
  isRunning: boolean
  memoryUsed: number | null
  memoryLimit: number | null
  hasMemoryAlarm: boolean
  diskFree: number | null
  diskLimit: number | null
  hasDiskAlarm: boolean
  uptimeMs: number | null
}

export interface ConnectionView {
  /** What its client calls it, or its addresses. */
  name: string
  user: string | null
  peer: string | null
  state: string | null
  channels: number | null
  product: string | null
  connectedAt: number | null
}

export interface ChannelView {
  name: string
  user: string | null
  state: string | null
  consumers: number | null
  unacknowledged: number | null
  unconfirmed: number | null
  prefetch: number | null
}

export interface PolicyView {
  name: string
  pattern: string
  appliesTo: string
  definition: Readonly<Record<string, unknown>>
  priority: number
}

export type QueueUse = 'job' | 'dead_letters' | 'control' | 'retry' | 'system' | 'other'

export interface QueueView {
  name: string
  use: QueueUse
  /** The OJS queue that it belongs to. */
  queue: string | null
  type: string | null
  /** Null: unknown without the management API, or because the queue is exclusive. */
  ready: number | null
  unacknowledged: number | null
  consumers: number | null
  policy: string | null
  node: string | null
  state: string | null
  /** False: the gateway would declare it, and it is not there. */
  exists: boolean
  /** As RabbitMQ has them; null: unknown. */
  arguments: Readonly<Record<string, unknown>> | null
  /** As the gateway would declare them; null: it would not. */
  expected: Readonly<Record<string, unknown>> | null
  /** Names of arguments that differ from `expected`. */
  differing: readonly string[]
}

/** The messages of a job queue. */
export interface Depth {
  ready: number
  consumers: number
  /** Deliveries that this gateway holds unacknowledged: buffered, parked or with workers over HTTP. */
  held: number
  /** Of all consumers, some seconds old; null: unknown. */
  unacknowledged: number | null
}

export interface Inspection {
  /** The message that the row owes, or of its next attempt. Null: it cannot be built, which is a bug. */
  messageOf(row: JobRow): OutgoingView | null

  /** At most some seconds old. Never rejects. */
  server(): Promise<ServerView>

  /**
   * A page of the queues of the virtual host, by name: all with the management API, else those that the gateway
   * would declare. `limit`: at most 100; `offset` counts as the begin of its page. Never rejects.
   */
  queues(page: {
    limit: number
    offset: number
  }): Promise<{ queues: readonly QueueView[]; total: number }>

  /** By OJS queue (at most 100), at most some seconds old; without those that RabbitMQ does not have. Never rejects. */
  depths(queues: readonly string[]): Promise<ReadonlyMap<string, Depth>>
}
