/** The line of one queue in the relay: sends in order, and waits alone when its queue is stuck. */
import type { OwedMessage } from '../job/job.ts'

/** Unconfirmed publishes at a time. A classic queue confirms a third more per second than with 64. */
const PARALLEL = 256
/** Bytes of unconfirmed publishes: each is in memory, and may be as large as a batch. */
const PARALLEL_BYTES = 16 * 1024 * 1024
/** Messages that wait in the line. More stay in the outbox until there is room. */
const CAPACITY = 4_096
const MIN_ASIDE_MS = 1_000
const MAX_ASIDE_MS = 30_000
/** How long nothing must go before `onStuck`. A lost connection fails publishes too, but is back sooner. */
const TOLD_AFTER_MS = 10_000

/** `skipped`: the message is not owed any more, is being sent elsewhere, or is too large for RabbitMQ. */
export type RelayOutcome = 'sent' | 'failed' | 'skipped'

export interface QueueSenderDeps {
  /** Sends these, in order. The outcome of each comes as soon as it is known; none rejects. */
  send(owed: readonly OwedMessage[]): Promise<RelayOutcome>[]
  /** Called when the messages that the line left in the outbox may be offered again. */
  onRoom(): void
  now(): number
  /** Called once, when no message could be sent for a while. */
  onStuck(forMs: number): void
  /** Called when a message was sent after `onStuck`. */
  onMoving(): void
}

/**
 * Sends the messages that one queue is owed, in the order of the outbox. Nothing else waits for a line: one
 * that is full leaves further messages in the outbox, and one whose queue refuses, is gone or does not answer
 * is set aside for 1, 2, 4 … 30 s. After that one message is sent alone, and the others when it is confirmed.
 */
export class QueueSender {
  readonly queue: string
  readonly #deps: QueueSenderDeps
  #waiting: OwedMessage[] = []
  /** How many of `#waiting`, from its head, have been sent. */
  #gone = 0
  /** Nonces of the messages that wait or are in flight. */
  readonly #taken = new Set<number>()
  #inFlight = 0
  #bytesInFlight = 0
  #failures = 0
  #failingSince: number | null = null
  #isTold = false
  #willPump = false
  #aside: NodeJS.Timeout | undefined
  #leftFrom: number | null = null
  #isStopped = false

  constructor(queue: string, deps: QueueSenderDeps) {
    this.queue = queue
    this.#deps = deps
  }

  /** True: the line may be dropped. One that is set aside is not idle, because it has left messages. */
  get isIdle(): boolean {
    return this.#inFlight === 0 && this.#isEmpty && this.#leftFrom === null
  }

  /** True: the line has left messages in the outbox and could take them now. */
  get hasRoom(): boolean {
    return this.#leftFrom !== null && this.#aside === undefined && this.#isEmpty
  }

  get hasLeft(): boolean {
    return this.#leftFrom !== null
  }

  /** The time of the first failure after which nothing was sent; null: the line is not stuck. */
  get stuckSince(): number | null {
    return this.isIdle ? null : this.#failingSince
  }

  offer(owed: OwedMessage): void {
    if (this.#taken.has(owed.outbox)) return
    const isFull = this.#waiting.length - this.#gone >= CAPACITY
    // Once it has left a message, it leaves all later ones as well, to keep the order of the outbox.
    if (this.#leftFrom !== null || isFull) this.#leave(owed)
    else {
      this.#taken.add(owed.outbox)
      this.#waiting.push(owed)
      this.#pumpSoon()
    }
  }

  /** Returns the first nonce that must be offered again, and forgets it; null: the line has left none. */
  startAgain(): number | null {
    const from = this.#leftFrom
    this.#leftFrom = null
    return from
  }

  /** Ends the time for which the line is set aside: its cause may be over. */
  forgive(): void {
    clearTimeout(this.#aside)
    this.#aside = undefined
    this.#failures = 0
  }

  /** Sends nothing more. Messages in flight go on. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#aside)
  }

  get #isEmpty(): boolean {
    return this.#waiting.length === this.#gone
  }

  #leave({ outbox }: OwedMessage): void {
    this.#leftFrom = Math.min(this.#leftFrom ?? outbox, outbox)
  }

  /** Once for all that is offered, or confirmed, at the same moment: what is sent together is read together. */
  #pumpSoon(): void {
    if (this.#willPump) return
    this.#willPump = true
    queueMicrotask(() => {
      this.#willPump = false
      this.#pump()
    })
  }

  #pump(): void {
    const parallel = this.#failures > 0 ? 1 : PARALLEL
    const from = this.#gone
    while (this.#inFlight < parallel && !this.#isStopped) {
      const owed = this.#waiting[this.#gone]
      if (owed === undefined || this.#bytesInFlight >= PARALLEL_BYTES) break
      this.#gone += 1
      this.#inFlight += 1
      this.#bytesInFlight += owed.bytes
    }
    this.#send(this.#waiting.slice(from, this.#gone))
    if (this.#gone < CAPACITY && !this.#isEmpty) return
    this.#waiting = this.#waiting.slice(this.#gone)
    this.#gone = 0
  }

  #send(some: readonly OwedMessage[]): void {
    if (some.length === 0) return
    const outcomes = this.#deps.send(some)
    for (const [i, owed] of some.entries()) {
      void outcomes[i]?.then((outcome) => this.#onOutcome(owed, outcome))
    }
  }

  #onOutcome(owed: OwedMessage, outcome: RelayOutcome): void {
    this.#inFlight -= 1
    this.#bytesInFlight -= owed.bytes
    this.#taken.delete(owed.outbox)
    if (outcome === 'failed') this.#onFailure(owed)
    else if (outcome === 'sent') this.#onSent()
    if (this.#isStopped) return
    this.#pumpSoon()
    if (this.hasRoom) this.#deps.onRoom()
  }

  #onSent(): void {
    this.#failures = 0
    this.#failingSince = null
    if (!this.#isTold) return
    this.#isTold = false
    this.#deps.onMoving()
  }

  /**
   * Leaves this message and the waiting ones in the outbox, and sets the line aside. Other messages in flight
   * may fail for the same cause; while the line is set aside, they do not lengthen that time.
   */
  #onFailure(owed: OwedMessage): void {
    this.#failingSince ??= this.#deps.now()
    this.#tellIfStuck(this.#deps.now() - this.#failingSince)
    this.#leave(owed)
    for (const next of this.#waiting.slice(this.#gone)) {
      this.#taken.delete(next.outbox)
      this.#leave(next)
    }
    this.#waiting = []
    this.#gone = 0
    if (this.#aside !== undefined || this.#isStopped) return
    const asideMs = Math.min(MIN_ASIDE_MS * 2 ** this.#failures, MAX_ASIDE_MS)
    this.#failures += 1
    this.#aside = setTimeout(() => {
      this.#aside = undefined
      this.#deps.onRoom()
    }, asideMs)
    this.#aside.unref()
  }

  #tellIfStuck(forMs: number): void {
    if (this.#isTold || forMs < TOLD_AFTER_MS) return
    this.#isTold = true
    this.#deps.onStuck(forMs)
  }
}
