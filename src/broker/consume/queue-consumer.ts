/** The consumer channels and the buffer of one queue that is fetched from. */
import type { Clock } from '../../clock.ts'
import { LAST_TURN, type Turn } from '../../job/delivery-order.ts'
import { partOfHeap } from '../../memory.ts'
import type { PublishOutcome } from '../broker.ts'
import { RestartDelay } from '../connection/reconnect.ts'
import type { ConsumerChannel, ConsumerEnd } from './consumer-channel.ts'
import type { LiveDelivery } from './delivery.ts'
import { DeliveryBuffer } from './delivery-buffer.ts'
import { Demand } from './demand.ts'
import { ExpectedDeliveries } from './expected-deliveries.ts'
import { SetAside } from './set-aside.ts'

/** How long a first delivery may take after RabbitMQ accepted the consumer. */
const FIRST_DELIVERY_MS = 250
/** After this wait, fetches stop waiting: a queue without a leader answers no consume for 15 to 65 s. */
const OPENING_MS = 1_000
/**
 * A queue counts as crowded when more than this share of its possible deliveries is in use. The rest, 128 of
 * 2,048, is room for deliveries that are just being handed out.
 */
const CROWDED = 15 / 16
/** A consumer channel goes only after it was surplus for this long: consumers must not come and go. */
const SURPLUS_MS = 5_000
/** Most bytes of one FETCH answer: it is written as one string, and V8 allows none above 512 MiB. */
export const MAX_TAKEN_BYTES = partOfHeap(1 / 16, 32 * 1024 * 1024)
/**
 * After a FETCH has waited in vain for jobs that the ledger calls available, no fetch waits for more of them
 * for this long: a hundred times as long as that wait.
 */
const IN_VAIN_MS = 10_000
/**
 * Beside other consumers, the next consumer channel is as large as this share of what is leased, or what is
 * asked for.
 */
const LEASES_PER_SPARE = 4
/** Channels per queue, consuming or not. RabbitMQ allows 2,047 per connection by default. */
const MAX_CHANNELS = 512

export interface QueueConsumerOptions {
  queue: string
  maxConsumerChannels: number
  prefetch: number
  idleMs: number
  clock: Clock
  random: () => number
  /** Creates a consumer channel; the queueConsumer opens it. */
  newConsumerChannel(queueConsumer: QueueConsumer): ConsumerChannel
}

/**
 * The gateway's buffer and consumer channels of one queue. Decides when another consumer channel is needed;
 * `Deliveries` knows whether a fetch is waiting and whether consuming is allowed at all.
 */
export class QueueConsumer {
  readonly queue: string
  readonly buffer = new DeliveryBuffer()
  readonly consumerChannels = new Set<ConsumerChannel>()
  /** The queue was seen in the broker on the present connection. */
  exists = false
  /** The broker is being asked whether the queue exists. */
  isLookedUp = false
  /** Others consume the queue too: hold no more than fetches ask for, and that not for long. */
  isShared = false
  /** When RabbitMQ was last asked for its number of consumers; clock time. */
  consumersAskedAt = Number.NEGATIVE_INFINITY
  readonly #options: QueueConsumerOptions
  readonly #restartDelay: RestartDelay
  readonly #underway = new ExpectedDeliveries()
  readonly #setAside = new SetAside()
  #lastFetchAt: number
  #startedAt = 0
  #openingSince = 0
  #hasDelivered = false
  #restartAt = 0
  #surplusSince: number | null = null
  readonly #demand = new Demand()
  /**
   * Deliveries came back unasked for: consumer channels are as large as what fetches ask for, until that is
   * more.
   */
  #isModest = false
  #inVainUntil = Number.NEGATIVE_INFINITY

  constructor(options: QueueConsumerOptions) {
    this.queue = options.queue
    this.#options = options
    this.#restartDelay = new RestartDelay(options.random)
    this.#lastFetchAt = options.clock.now()
  }

  /** False: the queue does not exist, as far as is known. */
  get mayExist(): boolean {
    return this.exists || this.isLookedUp
  }

  /** Deliveries in use: leased, being claimed, or parked. */
  get inUse(): number {
    return this.unacked - this.buffer.size
  }

  /** Deliveries taken from now on should not be held for long: each lease may keep a channel open. */
  get isCrowded(): boolean {
    const { maxConsumerChannels, prefetch } = this.#options
    let capacity = maxConsumerChannels * prefetch
    for (const consumerChannel of this.consumerChannels) {
      if (consumerChannel.state === 'running') capacity -= prefetch - consumerChannel.prefetch
    }
    return this.inUse > CROWDED * capacity || this.consumerChannels.size > 2 * maxConsumerChannels
  }

  get unacked(): number {
    let sum = 0
    for (const consumerChannel of this.consumerChannels) sum += consumerChannel.unacked
    return sum
  }

  get utilization(): number {
    return this.consumerChannels.size === 0 ? 0 : this.inUse / sizeOf(this.consumerChannels)
  }

  /** Records that a fetch takes from this queue, or waits for it. */
  touch(): void {
    this.#lastFetchAt = this.#now()
  }

  /** A fetch of `count` has come. */
  asked(count: number): void {
    this.#demand.asked(count, this.#now())
  }

  /** How many more deliveries may come to our consumers. */
  get room(): number {
    let room = 0
    for (const consumerChannel of this.consumerChannels) {
      if (consumerChannel.state === 'running')
        room += consumerChannel.prefetch - consumerChannel.unacked
    }
    return room
  }

  /**
   * RabbitMQ counts so many consumers of the queue, ours included. A quorum queue counts a cancelled consumer
   * until its deliveries are settled, so some numbers tell nothing.
   */
  consumersCounted(count: number): void {
    this.consumersAskedAt = this.#now()
    let atMostOurs = 0
    for (const consumerChannel of this.consumerChannels)
      if (consumerChannel.isCounted) atMostOurs += 1
    if (count > atMostOurs) this.isShared = true
    else if (count <= this.#running.length) this.isShared = false
  }

  /**
   * Prefetch of the next consumer channel. `waitedFor`: how many jobs the waiting fetches want. A queue that
   * is ours alone gets whole consumer channels, which are the fastest. Else small ones, which grow with the
   * number of leases so that they suffice for as many; and whole ones in the end.
   */
  prefetchOfNext(waitedFor: number): number {
    const { prefetch, maxConsumerChannels } = this.#options
    const isPlain = !this.isShared && !this.#isModest
    if (isPlain || this.#running.length >= maxConsumerChannels / 2) return prefetch
    const leased = Math.ceil(this.inUse / LEASES_PER_SPARE)
    const wanted = Math.max(1, waitedFor, this.demand, leased)
    if (wanted < prefetch) return wanted
    this.#isModest = false
    return prefetch
  }

  /** How many jobs fetches have asked for within the last tenths of a second. */
  get demand(): number {
    return this.#demand.recent(this.#now())
  }

  /** Something has been buffered for at least so long, besides the `spared` that go next. */
  hasHeld(ms: number, spared = 0): boolean {
    const before = this.#now() - ms
    const { all } = this.buffer
    for (let i = all.length - 1 - spared; i >= 0; i--) {
      if ((all[i]?.bufferedAt ?? before) <= before) return true
    }
    return false
  }

  /** What is buffered is too much: further consumer channels are as large as what fetches ask for. */
  beModest(): void {
    this.#isModest = true
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

  /** Milliseconds until a consumer channel may be opened again, after a failure or a rest; 0: at once. */
  get restartDelayMs(): number {
    return Math.max(0, this.#restartAt - this.#now())
  }

  /**
   * A fetch of `count` would get fewer for now: seed 001 §7.3 allows that only when fewer are available. What
   * fills one answer (`MAX_TAKEN_BYTES`) suffices, however few jobs it is.
   */
  isShortOf(count: number): boolean {
    return this.buffer.size < count && this.buffer.bytes < MAX_TAKEN_BYTES
  }

  /** Jobs that the ledger calls available did not come: others hold them, or acknowledged them silently. */
  gatheredInVain(): void {
    this.#inVainUntil = this.#now() + IN_VAIN_MS
  }

  /** A consumer is starting, or has just started, and has room for more deliveries. */
  get isGrowing(): boolean {
    if (this.#has('opening')) return true
    const isYoung = this.#now() - this.#startedAt < FIRST_DELIVERY_MS
    return isYoung && this.#hasRoom
  }

  /** One of our consumers has room, or is starting, and another delivery may come. */
  get mayReceive(): boolean {
    if (this.#now() < this.#inVainUntil) return false
    return this.#has('opening') || this.#hasRoom
  }

  /**
   * Opens a first consumer channel, or a sibling when all slots are taken and fewer than `wanted` are
   * buffered.
   */
  nourish(wanted = 1): void {
    // Checked first, because nearly every fetch ends here.
    if (!this.isShortOf(wanted)) return
    if (!this.exists || this.restartDelayMs > 0 || this.#has('opening') || this.#hasRoom) return
    const running = this.#running.length
    // A consumer channel that only waits for its leases to end is no consumer any more, but still a channel.
    if (running >= this.#options.maxConsumerChannels || this.consumerChannels.size >= MAX_CHANNELS)
      return
    if (running === 0) this.#hasDelivered = false
    const consumerChannel = this.#options.newConsumerChannel(this)
    this.consumerChannels.add(consumerChannel)
    this.#openingSince = this.#now()
    void consumerChannel.open().then(() => {
      if (consumerChannel.isIn('running')) this.#startedAt = this.#now()
    })
  }

  /** The gateway has published a message to the queue, and RabbitMQ may deliver it to us. */
  expect(id: string, turn: Turn, published: Promise<PublishOutcome>): void {
    if (this.consumerChannels.size === 0) return
    this.#underway.sent(id, turn, this.#now())
    void published.then((outcome) => {
      if (outcome === 'confirmed') this.#underway.confirmed(id, this.#now())
      else this.#underway.forget(id)
    })
  }

  /** A message confirmed by the time `by` that goes before all buffered ones may be about to come. */
  expectsBetter(by: number): boolean {
    const { priority, order } = this.buffer.nextTurn
    // A single consumer channel is given everything in queue order: an older message would have come by now.
    const turn = {
      priority,
      order: this.consumerChannels.size > 1 ? order : Number.NEGATIVE_INFINITY,
    }
    if (!this.#underway.hasBefore(turn, by, this.#now())) return false
    return this.#hasRoom
  }

  /** A message confirmed by the time `by` may be about to come. */
  expectsMore(by: number): boolean {
    return this.#underway.hasBefore(LAST_TURN, by, this.#now())
  }

  /** Nothing is buffered yet, but a delivery may be about to come. */
  isAwaited(by: number): boolean {
    if (this.buffer.size > 0) return false
    return (this.isStarting && !this.isSilent) || this.expectsBetter(by)
  }

  /** RabbitMQ has not answered a consume for `OPENING_MS`: fetches from other queues must not wait for it. */
  get isSilent(): boolean {
    return this.#has('opening') && this.#now() - this.#openingSince >= OPENING_MS
  }

  add(delivery: LiveDelivery): void {
    this.#hasDelivered = true
    // RabbitMQ deals to several consumer channels in turns, and they deliver independently: restore the
    // publish order.
    delivery.order = this.#underway.arrived(delivery.id, delivery.order)
    delivery.place = 'buffered'
    delivery.bufferedAt = this.#now()
    this.#setAside.delete(delivery)
    this.buffer.insert(delivery)
  }

  /** How many deliveries no fetch may start yet, but others may. */
  get setAsideCount(): number {
    return this.#setAside.size
  }

  /** The delivery is parked, as no fetch may start its job yet; other consumers of the queue may. */
  setAside(delivery: LiveDelivery, onReturned: () => number): void {
    this.#setAside.add(delivery, this.#now(), onReturned)
  }

  /** The delivery was settled or lost. */
  forgetSetAside(delivery: LiveDelivery): void {
    this.#setAside.delete(delivery)
  }

  /**
   * Something was set aside for at least so long. While consumer channels are being opened to look behind it,
   * the queue is not empty, so other consumers do not starve: then for `idleMs`.
   */
  hasSetAside(ms: number): boolean {
    const { since } = this.#setAside
    if (since === null) return false
    const now = this.#now()
    const isLookingBehind = this.#has('opening') || now - this.#startedAt < ms
    return now - since >= (isLookingBehind ? this.#options.idleMs : ms)
  }

  /**
   * Moves what was set aside into the buffer, from where it is given back, and returns it. Beside other
   * consumers, further consumer channels are not opened at once.
   */
  recall(): LiveDelivery[] {
    const now = this.#now()
    const { deliveries, restMs } = this.#setAside.recall(now)
    for (const delivery of deliveries) this.buffer.insert(delivery)
    if (this.isShared) this.#restartAt = Math.max(this.#restartAt, now + restMs)
    return deliveries
  }

  /** `takenBytes`: size of the jobs that are in the same answer besides `taken`. */
  takeInto(taken: LiveDelivery[], count: number, takenBytes = 0): void {
    let bytes = taken.reduce((sum, { size }) => sum + size, takenBytes)
    while (taken.length < count && bytes < MAX_TAKEN_BYTES) {
      const delivery = this.buffer.next()
      if (!delivery) return
      delivery.place = 'out'
      this.#setAside.taken()
      bytes += delivery.size
      taken.push(delivery)
    }
  }

  /** Takes these of the buffer, wherever they are in it. */
  takeThese(deliveries: readonly LiveDelivery[]): void {
    for (const delivery of deliveries) {
      this.buffer.remove(delivery)
      delivery.place = 'out'
      this.#setAside.taken()
    }
  }

  /** Cancels every consumer. Resolves when no further delivery can come from them. */
  async quieten(): Promise<void> {
    await Promise.all(this.#running.map((consumerChannel) => consumerChannel.cancel()))
  }

  /**
   * Gives buffered deliveries back in delivery order: a quorum queue lines returned messages up in the order
   * in which they return, so the reverse order would reverse the queue (measured, docs/architecture.md §4.4).
   */
  giveBack(): number {
    const unassigned = this.buffer.drain()
    for (const delivery of unassigned) delivery.giveBack()
    return unassigned.length
  }

  /**
   * After a burst: ends one consumer channel when the remaining ones would still have a whole consumer
   * channel's room to spare.
   */
  retireSurplus(): void {
    const running = this.#running
    const [leastUsed] = running.sort((a, b) => a.unacked - b.unacked)
    const toSpare = Math.max(0, ...running.map(({ prefetch }) => prefetch))
    const isSurplus =
      leastUsed !== undefined && this.inUse + toSpare <= sizeOf(running) - leastUsed.prefetch
    if (!isSurplus) this.#surplusSince = null
    else this.#surplusSince ??= this.#now()
    if (this.#surplusSince === null || this.#now() - this.#surplusSince < SURPLUS_MS) return
    this.#surplusSince = this.#now()
    // Its buffered deliveries stay in the buffer: the present traffic will take them.
    void leastUsed?.cancel()
  }

  onConsumerEnd(
    consumerChannel: ConsumerChannel,
    end: ConsumerEnd,
    lost: readonly LiveDelivery[],
  ): void {
    this.consumerChannels.delete(consumerChannel)
    for (const delivery of lost) {
      this.buffer.remove(delivery)
      this.#setAside.delete(delivery)
    }
    if (end.why === 'closed') return
    const livedMs = consumerChannel.wasAccepted ? this.#now() - this.#startedAt : 0
    this.#restartAt = this.#now() + this.#restartDelay.after(livedMs)
  }

  /** To be called on a new connection: failures on the old one do not count. */
  forgetFailures(): void {
    this.#restartDelay.forgetFailures()
    this.#restartAt = 0
  }

  /** A consumer can receive another delivery. */
  get #hasRoom(): boolean {
    for (const consumerChannel of this.consumerChannels)
      if (consumerChannel.state === 'running' && !consumerChannel.isFull) return true
    return false
  }

  #now(): number {
    return this.#options.clock.now()
  }

  /** How many consumers it has. */
  get running(): number {
    return this.#running.length
  }

  get #running(): ConsumerChannel[] {
    return [...this.consumerChannels].filter(({ state }) => state === 'running')
  }

  #has(state: ConsumerChannel['state']): boolean {
    for (const consumerChannel of this.consumerChannels)
      if (consumerChannel.state === state) return true
    return false
  }
}

/** How many deliveries these consumer channels can hold together. */
function sizeOf(consumerChannels: Iterable<ConsumerChannel>): number {
  let sum = 0
  for (const { prefetch } of consumerChannels) sum += prefetch
  return sum
}
