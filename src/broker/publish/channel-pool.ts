/** Which channel a publish takes: one for each queue, so that its order is kept. */
import type { Clock } from '../../clock.ts'
import type { Logger } from '../../logger.ts'
import type { Connection } from '../connection/connection.ts'
import { isInTime } from '../connection/reconnect.ts'
import type { ChannelGroup, Outgoing } from '../messages/outgoing-message.ts'
import { UNWRITTEN_MS } from '../topology/entity.ts'
import type { Publication, PublishChannel } from './publish-channel.ts'

/** Channels for job queues, and for retry and dead letter queues (always quorum). */
const CHANNELS: Readonly<Record<ChannelGroup, number>> = { jobs: 4, others: 2 }
/**
 * Most replaced publish channels that still await confirms. More would not help when RabbitMQ confirms
 * nothing.
 */
const MAX_RETIRED = 16
/** Most destinations under suspicion, and how many of them may have their own channel at a time. */
const MAX_SUSPECTS = 1_000
const MAX_OWN_CHANNELS = 32

/** A busy broker may take at least this long to open a channel. */
const MIN_OPEN_MS = 5_000

type Destination = Pick<Outgoing, 'exchange' | 'routingKey'>

export interface ChannelPoolDeps {
  connection: Connection
  clock: Clock
  logger: Logger
  count?: typeof CHANNELS | undefined
  /** How long a publish may wait for its confirm. */
  timeoutMs: number
  /** `isProbe`: one publish at a time, until one is confirmed in time. */
  newPublishChannel(kind: { isProbe: boolean }): PublishChannel
}

/**
 * Chooses the channel of a publish. A queue always maps to the same one, which keeps its order.
 *
 * While a quorum queue without a leader makes a channel wait, RabbitMQ does not serve that channel: 65 s for
 * each message (3.10.8). Three rules follow. A retry or dead letter queue never shares a channel with job
 * queues. A channel that has not confirmed in time is replaced, for the sake of the other queues on it. The
 * destination that was not confirmed gets a channel of its own, until a publish to it is confirmed in time
 * again.
 */
export class ChannelPool {
  readonly #deps: ChannelPoolDeps
  readonly #publishChannels: Record<ChannelGroup, PublishChannel[]>
  readonly #retired = new Set<PublishChannel>()
  /** When each publish channel that replaced another was created, by `clock`. */
  readonly #renewedAt = new WeakMap<PublishChannel, number>()
  /** The probe publish channel of each suspected destination; null until there is something to publish. */
  readonly #suspects = new Map<string, PublishChannel | null>()
  #ownChannels = 0
  /** When these destinations were declared, by `clock`; oldest first. */
  readonly #new = new Map<string, number>()

  constructor(deps: ChannelPoolDeps) {
    this.#deps = deps
    const publishChannels = (count: number) =>
      Array.from({ length: count }, () => deps.newPublishChannel({ isProbe: false }))
    const { jobs, others } = deps.count ?? CHANNELS
    this.#publishChannels = { jobs: publishChannels(jobs), others: publishChannels(others) }
    deps.connection.listen({
      up: () => {
        for (const publishChannel of this.#shared) void publishChannel.open()
        // Publishes to these came while there was no connection to open their publish channels on.
        for (const publishChannel of this.#suspects.values()) void publishChannel?.open()
      },
      down: () => this.#closeAll(),
    })
  }

  /** True when every shared publish channel is open; nothing can be published before. */
  get isOpen(): boolean {
    return this.#shared.every((publishChannel) => publishChannel.isOpen)
  }

  channelFor(message: Outgoing): PublishChannel {
    return this.#suspects.size > 0 ? this.#channelOfSuspect(message) : this.#sharedChannel(message)
  }

  /** A queue is about to be declared: if the connection ends soon, it may come back without a leader. */
  noteNew(destination: Destination): void {
    this.#forgetWritten()
    this.#new.set(keyOf(destination), this.#deps.clock.now())
  }

  /** RabbitMQ has answered in time. */
  onAnswered(publication: Publication): void {
    if (this.#suspects.size === 0) return
    const key = keyOf(publication)
    const publishChannel = this.#suspects.get(key)
    if (publishChannel === undefined) return
    this.#suspects.delete(key)
    if (publishChannel === null) return
    this.#ownChannels -= 1
    this.#retire(publishChannel)
  }

  /** RabbitMQ has not answered in time. */
  onOverdue(publication: Publication): void {
    const { publishChannel, isSent } = publication
    publishChannel?.giveUp(publication)
    if (!publishChannel || !isSent) return
    this.#suspect(keyOf(publication))
    const publishChannels = this.#groupOf(publishChannel)
    if (!publishChannels || !this.#mayReplace(publishChannel)) return
    this.#deps.logger.warn(
      {},
      'RabbitMQ does not confirm a message in time; other queues of its channel get a new channel',
    )
    void this.#replace(publishChannel, publishChannels)
  }

  /**
   * The queue is full, or was. RabbitMQ tells a channel when a quorum queue becomes full and when it has room
   * again, but not when its limit is removed: after the policy is deleted, the queue refuses for ever what
   * such a channel publishes, even when it is empty (3.10.8). Hence the new channel, which learns the present
   * state at once.
   */
  onRefused({ publishChannel }: Publication): void {
    const publishChannels = publishChannel && this.#groupOf(publishChannel)
    if (!publishChannels || !this.#mayReplace(publishChannel)) return
    const ageMs =
      this.#deps.clock.now() - (this.#renewedAt.get(publishChannel) ?? Number.NEGATIVE_INFINITY)
    if (ageMs >= this.#deps.timeoutMs) void this.#replace(publishChannel, publishChannels)
  }

  /** The next publish to this destination goes through a channel of its own. */
  #suspect(key: string): void {
    if (this.#suspects.size >= MAX_SUSPECTS || this.#suspects.has(key)) return
    this.#suspects.set(key, null)
  }

  #forgetWritten(): void {
    const before = this.#deps.clock.now() - UNWRITTEN_MS
    for (const [key, at] of this.#new) if (at < before) this.#new.delete(key)
  }

  get #shared(): PublishChannel[] {
    return [...this.#publishChannels.jobs, ...this.#publishChannels.others]
  }

  /** FNV-1a; names are short. */
  #sharedChannel({ group, routingKey }: Outgoing): PublishChannel {
    let hash = 0x811c9dc5
    for (let i = 0; i < routingKey.length; i++) {
      hash = Math.imul(hash ^ routingKey.charCodeAt(i), 0x01000193)
    }
    const publishChannels = this.#publishChannels[group]
    const publishChannel = publishChannels[(hash >>> 0) % publishChannels.length]
    if (!publishChannel) throw new Error('a publisher has publish channels')
    return publishChannel
  }

  #channelOfSuspect(message: Outgoing): PublishChannel {
    const key = keyOf(message)
    const ownChannel = this.#suspects.get(key)
    if (ownChannel) return ownChannel
    if (ownChannel === undefined || this.#ownChannels >= MAX_OWN_CHANNELS)
      return this.#sharedChannel(message)
    const publishChannel = this.#deps.newPublishChannel({ isProbe: true })
    this.#suspects.set(key, publishChannel)
    this.#ownChannels += 1
    void publishChannel.open()
    return publishChannel
  }

  #groupOf(publishChannel: PublishChannel): PublishChannel[] | undefined {
    return [this.#publishChannels.jobs, this.#publishChannels.others].find((publishChannels) =>
      publishChannels.includes(publishChannel),
    )
  }

  #mayReplace(publishChannel: PublishChannel): boolean {
    return !publishChannel.isHeld && this.#retired.size < MAX_RETIRED
  }

  /**
   * Moves the waiting publishes to a new publish channel; those already sent may still be answered in the old
   * one.
   */
  async #replace(publishChannel: PublishChannel, publishChannels: PublishChannel[]): Promise<void> {
    publishChannel.hold()
    const fresh = this.#deps.newPublishChannel({ isProbe: false })
    this.#renewedAt.set(fresh, this.#deps.clock.now())
    if (!(await this.#opens(fresh))) {
      this.#deps.connection.abandon('RabbitMQ has stopped reading from this connection')
      return
    }
    const isUseful = fresh.isOpen && publishChannel.isOpen && publishChannel.isHeld
    if (isUseful) {
      publishChannels[publishChannels.indexOf(publishChannel)] = fresh
      publishChannel.passOn(fresh)
    }
    publishChannel.release()
    this.#retire(isUseful ? publishChannel : fresh)
  }

  /**
   * False: RabbitMQ does not even open a channel, though it reports no alarm. It has stopped reading this
   * connection and may never read it again: when a quorum queue is deleted while a channel has more publishes
   * under way to it than RabbitMQ's credit allows, 3.10.8 waits for the deleted queue to grant more credit.
   */
  async #opens(publishChannel: PublishChannel): Promise<boolean> {
    const { connection, timeoutMs } = this.#deps
    const waitMs = Math.max(timeoutMs, MIN_OPEN_MS)
    const opened = publishChannel.open()
    for (;;) {
      const isOver = await isInTime(opened, waitMs)
      if (isOver || connection.blockedReason === null) return isOver
    }
  }

  #retire(publishChannel: PublishChannel): void {
    this.#retired.add(publishChannel)
    publishChannel.retire(() => this.#retired.delete(publishChannel))
  }

  /** Suspicions outlive the connection, because the queue that caused them does too. */
  #closeAll(): void {
    for (const publishChannel of [...this.#shared, ...this.#retired]) publishChannel.close()
    for (const [key, publishChannel] of this.#suspects) {
      publishChannel?.close()
      this.#suspects.set(key, null)
    }
    this.#ownChannels = 0
    this.#retired.clear()
    this.#forgetWritten()
    for (const key of this.#new.keys()) this.#suspect(key)
    this.#new.clear()
  }
}

function keyOf({ exchange, routingKey }: Destination): string {
  return `${exchange}/${routingKey}`
}
