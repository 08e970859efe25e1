/** What a connection is made with, and what its listeners hear. */
import type { Logger } from '../../logger.ts'
import type { BrokerObserver, ConnectionName } from '../observer.ts'

export interface ConnectionOptions {
  name: ConnectionName
  urls: readonly string[]
  /** `connection_name` of the client properties: what operators see in RabbitMQ's management. */
  connectionName: string
  logger: Logger
  random: () => number
  observer: BrokerObserver
  /** Used when the URL sets none. Seconds. Each side gives up a silent peer after two or three heartbeats. */
  heartbeatS?: number
  /** Frames go out after each callback, not at the end of the turn, so that RabbitMQ need not idle. */
  isPrompt?: boolean
  /** How long the opening may take with one host, in ms. Default: 30 s. */
  openMs?: number
  /** How often `AnswerWatch` looks for unanswered requests, in ms. Default: 5 s. */
  lookMs?: number
  /** Opened only while all of these are open: a connection limit may leave too few places for all. */
  behind?: readonly PriorConnection[]
}

/** What a connection that waits for another one knows of it. */
interface PriorConnection {
  readonly isUp: boolean
  readonly isEnded: boolean
  listen(listener: ConnectionListener): void
}

/** Listeners are called synchronously, in the order of registration. They must not throw. */
export interface ConnectionListener {
  up?(): void
  /** The connection and all its channels are gone. */
  down?(reason: string): void
  blocked?(reason: string): void
  unblocked?(): void
}
