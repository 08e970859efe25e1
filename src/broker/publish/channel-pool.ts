import type { Clock } from '../../clock.ts'
import type { Logger } from '../../logger.ts'
import type { Connection } from '../connection/connection.ts'
import { isInTime } from '../connection/reconnect.ts'
import type { LaneGroup, Outgoing } from '../messages/outgoing-message.ts'
import { UNWRITTEN_MS } from '../topology/entity.ts'
import type { Publication, PublishLane } from './publish-channel.ts'

/** Channels for job queues, and for retry and dead letter queues (always quorum). */
const LANES: Readonly<Record<LaneGroup, number>> = { jobs: 4, others: 2 }
/** Most replaced lanes that still await confirms. More would not help when RabbitMQ confirms nothing. */
const MAX_RETIRED = 16
/** Most destinations under suspicion, and how many of them may have their own channel at a time. */
const MAX_SUSPECTS = 1_000
const MAX_OWN_LANES = 32

/** A busy broker may take at least this long to open a channel. */
const MIN_OPEN_MS = 5_000

type Destination = Pick<Outgoing, 'exchange' | 'routingKey'>

export interface LanesDeps {
  connection: Connection
  clock: Clock
  logger: Logger
  count?: typeof LANES | undefined
  /** How long a publish may wait for its confirm. */
  timeoutMs: number
  /** `isProbe`: one publish at a time, until one is confirmed in time. */
  newLane(kind: { isProbe: boolean }): PublishLane
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
export class Lanes {
  readonly #deps: LanesDeps
  readonly #lanes: Record<LaneGroup, PublishLane[]>
  readonly #retired = new Set<PublishLane>()
  /** When each lane that replaced another was created, by `clock`. */
  readonly #renewedAt = new WeakMap<PublishLane, number>()
  /** The probe lane of each suspected destination; null until there is something to publish. */
  readonly #suspects = new Map<string, PublishLane | null>()
  #ownLanes = 0
  /** When these destinations were declared, by `clock`; oldest first. */
  readonly #new = new Map<string, number>()

  constructor(deps: LanesDeps) {
    this.#deps = deps
    const lanes = (count: number) =>
      Array.from({ length: count }, () => deps.newLane({ isProbe: false }))
    const { jobs, others } = deps.count ?? LANES
    this.#lanes = { jobs: lanes(jobs), others: lanes(others) }
    deps.connection.listen({
      up: () => {
        for (const lane of this.#shared) void lane.open()
        // Publishes to these came while there was no connection to open their lanes on.
        for (const lane of this.#suspects.values()) void lane?.open()
      },
      down: () => this.#closeAll(),
    })
  }

  /** True when every shared lane is open; nothing can be published before. */
  get isOpen(): boolean {
    return this.#shared.every((lane) => lane.isOpen)
  }

  laneFor(message: Outgoing): PublishLane {
    return this.#suspects.size > 0 ? this.#laneOfSuspect(message) : this.#sharedLane(message)
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
    const lane = this.#suspects.get(key)
    if (lane === undefined) return
    this.#suspects.delete(key)
    if (lane === null) return
    this.#ownLanes -= 1
    this.#retire(lane)
  }

  /** RabbitMQ has not answered in time. */
  onOverdue(publication: Publication): void {
    const { lane, isSent } = publication
    lane?.giveUp(publication)
    if (!lane || !isSent) return
    this.#suspect(keyOf(publication))
    const lanes = this.#groupOf(lane)
    if (!lanes || !this.#mayReplace(lane)) return
    this.#deps.logger.warn(
      {},
      'RabbitMQ does not confirm a message in time; other queues of its channel get a new channel',
    )
    void this.#replace(lane, lanes)
  }

  /**
   * The queue is full, or was. RabbitMQ tells a channel when a quorum queue becomes full and when it has room
   * again, but not when its limit is removed: after the policy is deleted, the queue refuses for ever what
   * such a channel publishes, even when it is empty (3.10.8). Hence the new channel, which learns the present
   * state at once.
   */
  onRefused({ lane }: Publication): void {
    const lanes = lane && this.#groupOf(lane)
    if (!lanes || !this.#mayReplace(lane)) return
    const ageMs = this.#deps.clock.now() - (this.#renewedAt.get(lane) ?? Number.NEGATIVE_INFINITY)
    if (ageMs >= this.#deps.timeoutMs) void this.#replace(lane, lanes)
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

  get #shared(): PublishLane[] {
    return [...this.#lanes.jobs, ...this.#lanes.others]
  }

  /** FNV-1a; names are short. */
  #sharedLane({ group, routingKey }: Outgoing): PublishLane {
    let hash = 0x811c9dc5
    for (let i = 0; i < routingKey.length; i++) {
      hash = Math.imul(hash ^ routingKey.charCodeAt(i), 0x01000193)
    }
    const lanes = this.#lanes[group]
    const lane = lanes[(hash >>> 0) % lanes.length]
    if (!lane) throw new Error('a publisher has lanes')
    return lane
  }

  #laneOfSuspect(message: Outgoing): PublishLane {
    const key = keyOf(message)
    const ownLane = this.#suspects.get(key)
    if (ownLane) return ownLane
    if (ownLane === undefined || this.#ownLanes >= MAX_OWN_LANES) return this.#sharedLane(message)
    const lane = this.#deps.newLane({ isProbe: true })
    this.#suspects.set(key, lane)
    this.#ownLanes += 1
    void lane.open()
    return lane
  }

  #groupOf(lane: PublishLane): PublishLane[] | undefined {
    return [this.#lanes.jobs, this.#lanes.others].find((lanes) => lanes.includes(lane))
  }

  #mayReplace(lane: PublishLane): boolean {
    return !lane.isHeld && this.#retired.size < MAX_RETIRED
  }

  /** Moves the waiting publishes to a new lane; those already sent may still be answered in the old one. */
  async #replace(lane: PublishLane, lanes: PublishLane[]): Promise<void> {
    lane.hold()
    const fresh = this.#deps.newLane({ isProbe: false })
    this.#renewedAt.set(fresh, this.#deps.clock.now())
    if (!(await this.#opens(fresh))) {
      this.#deps.connection.abandon('RabbitMQ has stopped reading from this connection')
      return
    }
    const isUseful = fresh.isOpen && lane.isOpen && lane.isHeld
    if (isUseful) {
      lanes[lanes.indexOf(lane)] = fresh
      lane.passOn(fresh)
    }
    lane.release()
    this.#retire(isUseful ? lane : fresh)
  }

  /**
   * False: RabbitMQ does not even open a channel, though it reports no alarm. It has stopped reading this
   * connection and may never read it again: when a quorum queue is deleted while a channel has more publishes
   * under way to it than RabbitMQ's credit allows, 3.10.8 waits for the deleted queue to grant more credit.
   */
  async #opens(lane: PublishLane): Promise<boolean> {
    const { connection, timeoutMs } = this.#deps
    const waitMs = Math.max(timeoutMs, MIN_OPEN_MS)
    const opened = lane.open()
    for (;;) {
      const isOver = await isInTime(opened, waitMs)
      if (isOver || connection.blockedReason === null) return isOver
    }
  }

  #retire(lane: PublishLane): void {
    this.#retired.add(lane)
    lane.retire(() => this.#retired.delete(lane))
  }

  /** Suspicions outlive the connection, because the queue that caused them does too. */
  #closeAll(): void {
    for (const lane of [...this.#shared, ...this.#retired]) lane.close()
    for (const [key, lane] of this.#suspects) {
      lane?.close()
      this.#suspects.set(key, null)
    }
    this.#ownLanes = 0
    this.#retired.clear()
    this.#forgetWritten()
    for (const key of this.#new.keys()) this.#suspect(key)
    this.#new.clear()
  }
}

function keyOf({ exchange, routingKey }: Destination): string {
  return `${exchange}/${routingKey}`
}
