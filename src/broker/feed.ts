import type { Clock } from '../clock.ts'
import { LAST_TURN, type Turn } from '../job/turn.ts'
import { partOfHeap } from '../memory.ts'
import type { Block, BlockEnd } from './block.ts'
import type { PublishOutcome } from './broker.ts'
import { DeliveryBuffer } from './buffer.ts'
import type { LiveDelivery } from './delivery.ts'
import { RestartDelay } from './reconnect.ts'
import { Underway } from './underway.ts'

/** How long a first delivery may take after the consumer was accepted. */
const FIRST_DELIVERY_MS = 250
/** A queue without a leader answers no consume for 15 to 65 s. */
const OPENING_MS = 1_000
/**
 * Share of a queue's possible deliveries in use from which it counts as crowded. The rest, 128 of
 * 2,048, is room for those that are just being handed out.
 */
const CROWDED = 15 / 16
/** A spare block goes only when it was spare for so long: consumers must not come and go. */
const SURPLUS_MS = 5_000
/** One answer: it is written in one piece, of which V8 makes none above 512 MiB. */
export const MAX_TAKEN_BYTES = partOfHeap(1 / 16, 32 * 1024 * 1024)
/**
 * After a FETCH has waited in vain for jobs that the ledger calls available, none waits for more for
 * so long: a hundred times what that wait took.
 */
const IN_VAIN_MS = 10_000
/** Channels per queue, consuming or not. RabbitMQ takes 2047 per connection by default. */
const MAX_CHANNELS = 512

export interface FeedOptions {
  queue: string
  maxBlocks: number
  prefetch: number
  idleMs: number
  clock: Clock
  random: () => number
  /** A block that is about to open itself. */
  newBlock(feed: Feed): Block
}

/**
 * Everything we hold of one queue: its buffer and its blocks. Knows when a block is wanted; that
 * somebody waits, and that we may consume at all, is told by `Deliveries`.
 */
export class Feed {
  readonly queue: string
  readonly buffer = new DeliveryBuffer()
  readonly blocks = new Set<Block>()
  /** The queue was seen in the broker on the present connection. */
  exists = false
  /** The broker is being asked whether the queue exists. */
  isLookedUp = false
  readonly #options: FeedOptions
  readonly #restartDelay: RestartDelay
  readonly #underway = new Underway()
  #lastFetchAt: number
  #startedAt = 0
  #openingSince = 0
  #hasDelivered = false
  #restartAt = 0
  #surplusSince: number | null = null
  #inVainUntil = Number.NEGATIVE_INFINITY

  constructor(options: FeedOptions) {
    this.queue = options.queue
    this.#options = options
    this.#restartDelay = new RestartDelay(options.random)
    this.#lastFetchAt = options.clock.now()
  }

  /** Deliveries that are in use: leased, being claimed, or parked. */
  get inUse(): number {
    return this.unacked - this.buffer.size
  }

  /** What is taken from now on had better not be held for long: each lease may keep a channel open. */
  get isCrowded(): boolean {
    const { maxBlocks, prefetch } = this.#options
    return this.inUse > CROWDED * maxBlocks * prefetch || this.blocks.size > 2 * maxBlocks
  }

  get unacked(): number {
    let sum = 0
    for (const block of this.blocks) sum += block.unacked
    return sum
  }

  get utilization(): number {
    return this.blocks.size === 0 ? 0 : this.inUse / (this.blocks.size * this.#options.prefetch)
  }

  /** Somebody fetches from it, or waits to. */
  touch(): void {
    this.#lastFetchAt = this.#now()
  }

  get isIdle(): boolean {
    return this.#now() - this.#lastFetchAt >= this.#options.idleMs
  }

  /** A first delivery may be on its way: a fetch should wait for it, whatever the ledger says. */
  get isStarting(): boolean {
    if (this.#has('opening')) return true
    return !this.#hasDelivered && this.#now() - this.#startedAt < FIRST_DELIVERY_MS
  }

  /** No further delivery can come. */
  get isQuiet(): boolean {
    return !this.#has('opening') && !this.#has('running') && !this.#has('cancelling')
  }

  /** When a block may be opened again after a failure; 0 when at once. */
  get restartDelayMs(): number {
    return Math.max(0, this.#restartAt - this.#now())
  }

  /**
   * A fetch of so many gets fewer for now: seed 001 §7.3 lets it have fewer only where fewer are
   * available. Enough for one answer is enough, however few they are.
   */
  isShortOf(count: number): boolean {
    return this.buffer.size < count && this.buffer.bytes < MAX_TAKEN_BYTES
  }

  /** What the ledger takes for available did not come: others have it, or have done it silently. */
  gatheredInVain(): void {
    this.#inVainUntil = this.#now() + IN_VAIN_MS
  }

  /** A consumer has just begun, or is about to, and does not have all that it may have. */
  get isGrowing(): boolean {
    if (this.#has('opening')) return true
    const isYoung = this.#now() - this.#startedAt < FIRST_DELIVERY_MS
    return isYoung && this.#hasRoom
  }

  /** A consumer of ours has room for another delivery, or is about to have, and there may be one. */
  get mayReceive(): boolean {
    if (this.#now() < this.#inVainUntil) return false
    return this.#has('opening') || this.#hasRoom
  }

  /** Opens a first block, or a sibling when every slot of the others is taken and `wanted` are not here. */
  nourish(wanted = 1): void {
    // First of all: nearly every fetch ends here.
    if (!this.isShortOf(wanted)) return
    if (!this.exists || this.restartDelayMs > 0 || this.#has('opening') || this.#hasRoom) return
    const running = this.#running.length
    // A block that only waits for its leases to end is no consumer, but it is a channel.
    if (running >= this.#options.maxBlocks || this.blocks.size >= MAX_CHANNELS) return
    if (running === 0) this.#hasDelivered = false
    const block = this.#options.newBlock(this)
    this.blocks.add(block)
    this.#openingSince = this.#now()
    void block.open().then(() => {
      if (block.isIn('running')) this.#startedAt = this.#now()
    })
  }

  /** A message of ours is on its way to the queue, and from there perhaps to us. */
  expect(id: string, turn: Turn, published: Promise<PublishOutcome>): void {
    if (this.blocks.size === 0) return
    this.#underway.sent(id, turn, this.#now())
    void published.then((outcome) => {
      if (outcome === 'confirmed') this.#underway.confirmed(id, this.#now())
      else this.#underway.forget(id)
    })
  }

  /** What was confirmed by then, and goes before all that is here, may be about to come. */
  expectsBetter(by: number): boolean {
    const { priority, order } = this.buffer.nextTurn
    // One block alone is given everything in its order: what has not come before this will not come.
    const turn = { priority, order: this.blocks.size > 1 ? order : Number.NEGATIVE_INFINITY }
    if (!this.#underway.hasBefore(turn, by, this.#now())) return false
    return this.#hasRoom
  }

  /** What was confirmed by then may be about to come. */
  expectsMore(by: number): boolean {
    return this.#underway.hasBefore(LAST_TURN, by, this.#now())
  }

  /** Nothing is here yet, but something may be about to come. */
  isAwaited(by: number): boolean {
    if (this.buffer.size > 0) return false
    return (this.isStarting && !this.isSilent) || this.expectsBetter(by)
  }

  /** RabbitMQ owes it an answer, and jobs of other queues would wait for it. */
  get isSilent(): boolean {
    return this.#has('opening') && this.#now() - this.#openingSince >= OPENING_MS
  }

  add(delivery: LiveDelivery): void {
    this.#hasDelivered = true
    // RabbitMQ deals to several blocks in turns, and each of them sends when it likes.
    delivery.order = this.#underway.arrived(delivery.id) ?? delivery.order
    delivery.place = 'buffered'
    this.buffer.insert(delivery)
  }

  /** `takenBytes`: of what is beside `taken` in the same answer. */
  takeInto(taken: LiveDelivery[], count: number, takenBytes = 0): void {
    let bytes = taken.reduce((sum, { size }) => sum + size, takenBytes)
    while (taken.length < count && bytes < MAX_TAKEN_BYTES) {
      const delivery = this.buffer.next()
      if (!delivery) return
      delivery.place = 'out'
      bytes += delivery.size
      taken.push(delivery)
    }
  }

  /** Every consumer is cancelled. Resolves when no further delivery can come from them. */
  async quieten(): Promise<void> {
    await Promise.all(this.#running.map((block) => block.cancel()))
  }

  /**
   * In delivery order: a quorum queue puts what comes back behind each other in the order in which
   * it comes, so the reverse order would reverse the queue (measured, architecture §4.4).
   */
  giveBack(): number {
    const unassigned = this.buffer.drain()
    for (const delivery of unassigned) delivery.giveBack()
    return unassigned.length
  }

  /** After a burst: one block less, when even the others would have a whole one to spare. */
  retireSurplus(): void {
    const running = this.#running
    const isSurplus = this.inUse <= (running.length - 2) * this.#options.prefetch
    if (!isSurplus) this.#surplusSince = null
    else this.#surplusSince ??= this.#now()
    if (this.#surplusSince === null || this.#now() - this.#surplusSince < SURPLUS_MS) return
    this.#surplusSince = this.#now()
    const [leastUsed] = running.sort((a, b) => a.unacked - b.unacked)
    // What it has buffered stays in the buffer: there is traffic that will take it.
    void leastUsed?.cancel()
  }

  onBlockEnd(block: Block, end: BlockEnd, lost: readonly LiveDelivery[]): void {
    this.blocks.delete(block)
    for (const delivery of lost) this.buffer.remove(delivery)
    if (end.why === 'closed') return
    const livedMs = block.wasAccepted ? this.#now() - this.#startedAt : 0
    this.#restartAt = this.#now() + this.#restartDelay.after(livedMs)
  }

  /** A new connection: what ended blocks on the old one does not count. */
  forgetFailures(): void {
    this.#restartDelay.forgetFailures()
    this.#restartAt = 0
  }

  /** A consumer may be given another delivery. */
  get #hasRoom(): boolean {
    for (const block of this.blocks) if (block.state === 'running' && !block.isFull) return true
    return false
  }

  #now(): number {
    return this.#options.clock.now()
  }

  get #running(): Block[] {
    return [...this.blocks].filter(({ state }) => state === 'running')
  }

  #has(state: Block['state']): boolean {
    for (const block of this.blocks) if (block.state === state) return true
    return false
  }
}
