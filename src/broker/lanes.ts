import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { Connection } from './connection.ts'
import { isInTime } from './in-time.ts'
import type { LaneGroup, Outgoing, Publication, PublishLane } from './publish-lane.ts'
import { UNWRITTEN_MS } from './unwritten.ts'

/** Channels for job queues, and for retry and dead letter queues (always quorum). */
const LANES: Readonly<Record<LaneGroup, number>> = { jobs: 4, others: 2 }
/** Replaced, with confirms still to come. More would not help where the broker confirms nothing. */
const MAX_RETIRED = 16
/** Destinations under suspicion, and how many of them have a channel at the same time. */
const MAX_SUSPECTS = 1_000
const MAX_OWN_LANES = 32

/** At least so long may a channel take to open, on a broker that is busy. */
const MIN_OPEN_MS = 5_000

type Destination = Pick<Outgoing, 'exchange' | 'routingKey'>

export interface LanesDeps {
  connection: Connection
  clock: Clock
  logger: Logger
  count?: typeof LANES | undefined
  /** What a publish has until its confirm. */
  timeoutMs: number
  /** `isProbe`: one publish at a time, until one is confirmed in time. */
  newLane(kind: { isProbe: boolean }): PublishLane
}

/**
 * Which channel a publish takes. A queue always uses the same one, which keeps its order.
 *
 * RabbitMQ stops serving a channel while a quorum queue without a leader keeps it waiting: 65 s for
 * each message (3.10.8). Hence a retry or dead letter queue never shares a channel with job queues;
 * a channel that has not confirmed in time is given up, in favour of what else goes through it; and
 * what it did not confirm goes through a channel of its own from then on, until a confirm is in
 * time again.
 */
export class Lanes {
  readonly #deps: LanesDeps
  readonly #lanes: Record<LaneGroup, PublishLane[]>
  readonly #retired = new Set<PublishLane>()
  /** When those that have taken the place of others were made, by `clock`. */
  readonly #renewedAt = new WeakMap<PublishLane, number>()
  /** By destination; null until it has something to publish. */
  readonly #suspects = new Map<string, PublishLane | null>()
  #ownLanes = 0
  /** When these were declared, by `clock`; oldest first. */
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
        // Something was for these while there was no connection to open them on.
        for (const lane of this.#suspects.values()) void lane?.open()
      },
      down: () => this.#closeAll(),
    })
  }

  /** The lanes that everything shares: nothing can be published before they are open. */
  get isOpen(): boolean {
    return this.#shared.every((lane) => lane.isOpen)
  }

  laneFor(message: Outgoing): PublishLane {
    return this.#suspects.size > 0 ? this.#laneOfSuspect(message) : this.#sharedLane(message)
  }

  /** About to be declared: if the connection ends soon, it may be without a leader afterwards. */
  noteNew(destination: Destination): void {
    this.#forgetWritten()
    this.#new.set(keyOf(destination), this.#deps.clock.now())
  }

  /** The broker has answered in time. */
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

  /** The broker has not answered in time. */
  onOverdue(publication: Publication): void {
    const { lane, isSent } = publication
    lane?.giveUp(publication)
    if (!lane || !isSent) return
    this.#suspect(keyOf(publication))
    const lanes = this.#groupOf(lane)
    if (!lanes || !this.#mayReplace(lane)) return
    this.#deps.logger.warn({}, 'RabbitMQ does not confirm: the other queues get a new channel')
    void this.#replace(lane, lanes)
  }

  /**
   * The queue is full, or was: RabbitMQ tells a channel when a quorum queue is full and when it has
   * room again, but not that its limit is gone. Where a policy was deleted, what such a channel
   * publishes to the queue is refused for ever, even when it is empty (3.10.8). A new channel of a
   * queue that is full is told so at once.
   */
  onRefused({ lane }: Publication): void {
    const lanes = lane && this.#groupOf(lane)
    if (!lanes || !this.#mayReplace(lane)) return
    const ageMs = this.#deps.clock.now() - (this.#renewedAt.get(lane) ?? Number.NEGATIVE_INFINITY)
    if (ageMs >= this.#deps.timeoutMs) void this.#replace(lane, lanes)
  }

  /** What is published there next goes through a channel of its own. */
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
    const own = this.#suspects.get(key)
    if (own) return own
    if (own === undefined || this.#ownLanes >= MAX_OWN_LANES) return this.#sharedLane(message)
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

  /** What waits in it goes on in a new one; what it has sent may still be answered. */
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
   * False: RabbitMQ does not even open a channel, and says nothing of an alarm. It does not read this
   * connection any more, and need not ever do so again: when a quorum queue is deleted while a channel
   * has more under way to it than RabbitMQ likes, 3.10.8 waits for the queue's word that it may go on.
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

  /** Suspicions outlive the connection: the queue that gave rise to them does, too. */
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
