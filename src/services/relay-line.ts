import type { OwedMessage } from '../job/job.ts'

/** Unconfirmed at a time: a classic queue confirms a third more a second than with 64. */
const PARALLEL = 256
/** And no more together: each is in memory, and may be as large as a batch. */
const PARALLEL_BYTES = 16 * 1024 * 1024
/** Waiting here; what is owed beyond stays in the outbox until there is room. */
const CAPACITY = 4_096
const MIN_ASIDE_MS = 1_000
const MAX_ASIDE_MS = 30_000
/** A connection that went takes what was under way with it, and is back sooner. */
const TOLD_AFTER_MS = 10_000

/** `skipped`: nobody owes it any more, somebody else is sending it, or it is too large to go. */
export type RelayOutcome = 'sent' | 'failed' | 'skipped'

export interface RelayLineDeps {
  send(owed: OwedMessage): Promise<RelayOutcome>
  /** What it left in the outbox may be offered again. */
  onRoom(): void
  now(): number
  /** Told once, when nothing has gone for a while. */
  onStuck(forMs: number): void
  /** Something has gone after that. */
  onMoving(): void
}

/**
 * What one queue is owed, in the order of the outbox. Nothing waits for a line: one that is too long
 * leaves the rest in the outbox, and one whose queue refuses, is gone or does not answer is set aside
 * for 1, 2, 4 … 30 s; then one message goes ahead, and the others when that has arrived.
 */
export class RelayLine {
  readonly queue: string
  readonly #deps: RelayLineDeps
  #waiting: OwedMessage[] = []
  /** Of `#waiting` so many have gone. */
  #gone = 0
  /** Nonces of what waits or is in flight. */
  readonly #taken = new Set<number>()
  #inFlight = 0
  #bytesInFlight = 0
  #failures = 0
  #failingSince: number | null = null
  #isTold = false
  #aside: NodeJS.Timeout | undefined
  #leftFrom: number | null = null
  #isStopped = false

  constructor(queue: string, deps: RelayLineDeps) {
    this.queue = queue
    this.#deps = deps
  }

  /** Nothing would be forgotten with it: one that is set aside has left something. */
  get isIdle(): boolean {
    return this.#inFlight === 0 && this.#isEmpty && this.#leftFrom === null
  }

  /** There is something in the outbox that it could take now. */
  get hasRoom(): boolean {
    return this.#leftFrom !== null && this.#aside === undefined && this.#isEmpty
  }

  get hasLeft(): boolean {
    return this.#leftFrom !== null
  }

  /** The instant of the first failure since which nothing has gone; null: it is not stuck. */
  get stuckSince(): number | null {
    return this.isIdle ? null : this.#failingSince
  }

  offer(owed: OwedMessage): void {
    if (this.#taken.has(owed.outbox)) return
    const isFull = this.#waiting.length - this.#gone >= CAPACITY
    // Behind what it has left, it leaves all: the order is that of the outbox.
    if (this.#leftFrom !== null || isFull) this.#leave(owed)
    else {
      this.#taken.add(owed.outbox)
      this.#waiting.push(owed)
      this.#pump()
    }
  }

  /** The nonce from which on the outbox must be offered again; null: it has left nothing there. */
  startAgain(): number | null {
    const from = this.#leftFrom
    this.#leftFrom = null
    return from
  }

  /** Whatever it was set aside for may be over. */
  forgive(): void {
    clearTimeout(this.#aside)
    this.#aside = undefined
    this.#failures = 0
  }

  /** What is in flight goes on. */
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

  #pump(): void {
    const parallel = this.#failures > 0 ? 1 : PARALLEL
    while (this.#inFlight < parallel && !this.#isStopped) {
      const owed = this.#waiting[this.#gone]
      if (owed === undefined || this.#bytesInFlight >= PARALLEL_BYTES) break
      this.#gone += 1
      this.#inFlight += 1
      this.#bytesInFlight += owed.bytes
      void this.#deps.send(owed).then((outcome) => this.#onOutcome(owed, outcome))
    }
    if (this.#gone < CAPACITY && !this.#isEmpty) return
    this.#waiting = this.#waiting.slice(this.#gone)
    this.#gone = 0
  }

  #onOutcome(owed: OwedMessage, outcome: RelayOutcome): void {
    this.#inFlight -= 1
    this.#bytesInFlight -= owed.bytes
    this.#taken.delete(owed.outbox)
    if (outcome === 'failed') this.#onFailure(owed)
    else if (outcome === 'sent') this.#onSent()
    if (this.#isStopped) return
    this.#pump()
    if (this.hasRoom) this.#deps.onRoom()
  }

  #onSent(): void {
    this.#failures = 0
    this.#failingSince = null
    if (!this.#isTold) return
    this.#isTold = false
    this.#deps.onMoving()
  }

  /** Those that were under way with it fail with it, or have arrived: they count as one. */
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
