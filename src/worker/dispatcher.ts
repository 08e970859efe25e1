/** What a native worker does with a message: run, claim first, drop, give back. */
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { DeliveryBuffer } from '../broker/consume/delivery-buffer.ts'
import { InsertionOrderedMap } from '../insertion-ordered-map.ts'
import { isExpired } from '../job/job.ts'
import type { Logger } from '../logger.ts'
import type { NativeContext } from '../schemas/requests/native-job.ts'
import type { SourceSink } from '../sdk/worker/source.ts'
import {
  AmqpLease,
  type Ending,
  type LeaseDeps,
  type RunAs,
  settle,
  tellDropped,
} from './amqp-lease.ts'
import type { Claimed, KeyedQuestion } from './gateway-rpc.ts'
import { hasConcurrencyKey, type MessageJob, messageJob } from './message-job.ts'
import { shownForClaim } from './reported-job.ts'

const MAX_CANCELLED = 100_000
/** How long a delivery of a queue that the gateway calls paused is kept. */
const REQUEUE_MS = 250
/** How long until a claim that no gateway has answered is asked again. */
const ASK_AGAIN_MS = 1_000
/** Ended executions that are remembered: more than can be in hand at a time. */
const MAX_ENDED = 10_000

export interface DispatcherDeps {
  sink: SourceSink
  logger: Logger
  lease: Omit<LeaseDeps, 'onOver'>
  context(): NativeContext
  /** Null: no gateway answers. */
  claim(delivery: LiveDelivery, keyed?: KeyedQuestion): Promise<Claimed | null>
  /** Whether even job messages that were not redelivered must be claimed. */
  claimsAll(queue: string): boolean
}

/**
 * An execution that has ended. Its job message may come again: its channel was lost before the
 * acknowledgement arrived, or RabbitMQ was killed before it wrote the acknowledgement down.
 */
interface Ended {
  generation: number
  attempt: number
  ending: Ending
}

/** A job that runs here. */
export interface Running {
  id: string
  /** 0, and one more after each retry by hand. */
  generation: number
}

/** A job message that has left the buffer: it is being claimed, run or reported. */
interface InHand {
  delivery: LiveDelivery
  /** Null while the job message is being claimed. */
  lease: AmqpLease | null
  /** It is claimed as a job with a concurrency key. */
  isKeyed?: true
  /**
   * Newer job messages of the same job. They wait, because two executions of a job must never run here at
   * once.
   */
  readonly next: LiveDelivery[]
}

/**
 * Decides what a native worker does with a job message. What the worker cannot know by itself it asks the
 * gateway (`claim`). Hands over no more jobs than the worker has slots for, and holds the other messages.
 */
export class Dispatcher {
  readonly #deps: DispatcherDeps
  readonly #held = new DeliveryBuffer()
  readonly #inHand = new Map<string, InHand>()
  readonly #ended = new KnownIds<Ended>(MAX_ENDED)
  /** Jobs whose attempt may have begun for us without being run, each with its generation. */
  readonly #left = new KnownIds<number>(MAX_ENDED)
  /** Cancelled jobs, each with the newest generation that was cancelled. */
  readonly #cancelled = new KnownIds<number>(MAX_CANCELLED)
  /** Job messages that have waited behind an execution of the same job. */
  readonly #hasWaited = new WeakSet<LiveDelivery>()
  #claiming = 0

  constructor(deps: DispatcherDeps) {
    this.#deps = deps
  }

  /** The running jobs by queue, for heartbeats. */
  running(): Map<string, Running[]> {
    const byQueue = new Map<string, Running[]>()
    for (const [id, { lease }] of this.#inHand) {
      if (!lease?.isAtWork) continue
      const { queue, generation } = lease.delivery
      const jobs = byQueue.get(queue)
      if (jobs) jobs.push({ id, generation })
      else byQueue.set(queue, [{ id, generation }])
    }
    return byQueue
  }

  /** The shortest `visibility_timeout_ms` of the running jobs; Infinity if none runs or none has one. */
  shortestLeaseMs(): number {
    let shortest = Number.POSITIVE_INFINITY
    for (const { lease } of this.#inHand.values()) {
      const own = lease?.isAtWork ? lease.job.visibility_timeout_ms : undefined
      if (typeof own === 'number' && own > 0) shortest = Math.min(shortest, own)
    }
    return shortest
  }

  /** Ids of all jobs that were handed over and are not settled. */
  unsettled(): string[] {
    return [...this.#inHand.keys()]
  }

  arrive(delivery: LiveDelivery): void {
    // A message without an id belongs to no job, and two of them must not be taken for one that came twice.
    if (delivery.id === '') this.#reject(delivery, new Error('the message has no id'))
    if (this.#isDecided(delivery)) return
    this.#held.insert(delivery)
    this.pump()
  }

  /** Hands over job messages while there are free slots. */
  pump(): void {
    while (this.#held.size > 0 && this.#deps.sink.capacity() > this.#claiming) {
      const delivery = this.#held.next()
      if (!delivery) return
      delivery.place = 'out'
      // Since the job message arrived, a copy of it may have begun, or its job may have been cancelled.
      if (!this.#isDecided(delivery)) this.#take(delivery)
    }
  }

  /** Ends the running execution of a job, and drops job messages of it that still arrive. */
  cancel(id: string, generation: number = Number.POSITIVE_INFINITY): void {
    this.#cancelled.set(id, Math.max(generation, this.#cancelled.get(id) ?? 0))
    const inHand = this.#inHand.get(id)
    if (!inHand || inHand.delivery.generation > generation) return
    void inHand.lease?.cancel()
    this.#deps.sink.abort(id, 'cancelled')
  }

  /** Forgets deliveries whose channel is gone; RabbitMQ delivers them again. */
  forget(lost: readonly LiveDelivery[]): void {
    for (const delivery of lost) this.#held.remove(delivery)
    for (const { next } of this.#inHand.values()) {
      for (const delivery of next.splice(0)) if (delivery.isLive()) next.push(delivery)
    }
  }

  /** The deliveries that wait for a free slot. */
  get held(): readonly LiveDelivery[] {
    return this.#held.all
  }

  /** Gives back deliveries that were not handed over, in the order of arrival: of one queue, or of all. */
  giveBack(queue: string | null = null): void {
    const isMeant = (delivery: LiveDelivery) => queue === null || delivery.queue === queue
    this.giveBackHeld(isMeant)
    for (const { next } of this.#inHand.values()) {
      for (const delivery of next.splice(0)) {
        if (isMeant(delivery)) delivery.giveBack()
        else next.push(delivery)
      }
    }
  }

  /** Gives back those that wait for a slot, but not those that wait for an execution of their job. */
  giveBackHeld(isMeant: (delivery: LiveDelivery) => boolean): void {
    for (const delivery of this.#held.drain()) {
      if (isMeant(delivery)) delivery.giveBack()
      else this.#held.insert(delivery)
    }
  }

  /**
   * True if nothing is left to decide about the job message: it is settled, or waits for an execution in
   * hand.
   */
  #isDecided(delivery: LiveDelivery): boolean {
    if (!delivery.isLive()) return true
    if (this.#isCancelled(delivery)) {
      void this.#dropCancelled(delivery)
      return true
    }
    const inHand = this.#inHand.get(delivery.id)
    if (inHand) {
      this.#joinInHand(inHand, delivery)
      return true
    }
    const ended = this.#ended.get(delivery.id)
    const order = ended === undefined ? 1 : compare(delivery, ended)
    if (!ended || order > 0) return false
    // An older job message that came a second time: its execution has ended, too.
    settle(delivery, order === 0 ? ended.ending : 'ack')
    return true
  }

  #isCancelled({ id, generation }: LiveDelivery): boolean {
    return generation <= (this.#cancelled.get(id) ?? -1)
  }

  /** Drops the job message of a cancelled job. Never rejects. */
  async #dropCancelled(delivery: LiveDelivery): Promise<void> {
    if (await tellDropped(this.#deps.lease, delivery)) delivery.ack()
  }

  /** Handles a message of a job that is in hand. */
  #joinInHand(inHand: InHand, delivery: LiveDelivery): void {
    const order = compare(delivery, inHand.delivery)
    if (order < 0) delivery.ack()
    else if (order > 0 || isAskedFor(inHand)) inHand.next.push(delivery)
    else if (inHand.delivery.isLive()) delivery.ack()
    else {
      // The same job message again, because its channel was lost: from now on this delivery is the one to
      // settle.
      inHand.delivery = delivery
      if (inHand.lease) inHand.lease.delivery = delivery
    }
  }

  #take(delivery: LiveDelivery): void {
    const inHand: InHand = { delivery, lease: null, next: [] }
    this.#inHand.set(delivery.id, inHand)
    if (delivery.mayBeKeyed() && this.#takeKeyed(inHand)) return
    const mustClaim = delivery.redelivered || this.#hasWaited.has(delivery)
    if (!mustClaim && !this.#deps.claimsAll(delivery.queue)) {
      // A later attempt is recorded first: the handler may be what killed the worker in the attempt before.
      this.#run(inHand, { attempt: delivery.attempt, isRecorded: delivery.attempt > 1 })
      return
    }
    this.#claiming += 1
    void this.#deps.claim(delivery).then((claimed) => {
      this.#claiming -= 1
      this.#onClaimed(inHand, claimed)
      this.pump()
    })
  }

  /** False: the job has no concurrency key after all. */
  #takeKeyed(inHand: InHand): boolean {
    const { delivery } = inHand
    const jobMessage = this.#read(delivery)
    if (jobMessage === null) {
      this.#drop(inHand)
      return true
    }
    if (!hasConcurrencyKey(jobMessage)) return false
    inHand.isKeyed = true
    const shown = jobMessage.isKnown ? '' : shownForClaim(jobMessage, delivery)
    const again = this.#left.get(delivery.id) === delivery.generation
    this.#claimKeyed(inHand, { again, shown })
    return true
  }

  /**
   * A job with a concurrency key runs only if a gateway says that it has a place. While none answers it waits, without
   * a slot, and the others go on.
   */
  #claimKeyed(inHand: InHand, question: KeyedQuestion): void {
    this.#claiming += 1
    void this.#deps.claim(inHand.delivery, question).then((claimed) => {
      this.#claiming -= 1
      const isCancelled = this.#isCancelled(inHand.delivery)
      if (claimed !== null || isCancelled || !inHand.delivery.isLive()) {
        this.#onClaimed(inHand, claimed)
      } else {
        const again = { ...question, again: true }
        setTimeout(() => this.#claimKeyed(inHand, again), ASK_AGAIN_MS).unref()
      }
      this.pump()
    })
  }

  #onClaimed(inHand: InHand, claimed: Claimed | null): void {
    const { delivery } = inHand
    if (!delivery.isLive()) this.#leave(inHand, claimed)
    else if (claimed?.decision === 'drop') {
      delivery.ack()
      this.#drop(inHand)
    } else if (this.#isCancelled(delivery)) {
      void this.#dropCancelled(delivery)
      this.#drop(inHand)
    } else if (claimed?.decision === 'discard') {
      delivery.deadLetter()
      this.#drop(inHand)
    } else if (claimed?.decision === 'requeue') {
      this.#giveBackSoon(inHand)
    } else {
      const { attempt = delivery.attempt, isStarted = false } = claimed ?? {}
      this.#run(inHand, { attempt, isRecorded: !isStarted, isStarted })
    }
  }

  /**
   * The message is lost with its channel, and comes again, here or elsewhere. With a concurrency key its attempt may have
   * begun for us, though the answer that says so may be lost as well: it is given back, because nobody runs it.
   */
  #leave(inHand: InHand, claimed: Claimed | null): void {
    const { delivery, isKeyed } = inHand
    const mayHaveBegun = isKeyed && (claimed === null || claimed.isStarted === true)
    const jobMessage = mayHaveBegun ? this.#read(delivery) : null
    if (jobMessage === null) {
      this.#drop(inHand)
      return
    }
    const { attempt } = claimed ?? delivery
    // An older question of ours may still be on its way, and begin it once more.
    this.#left.set(delivery.id, delivery.generation)
    void this.#lease(inHand, jobMessage, { attempt, isRecorded: false, isStarted: true }).release()
  }

  #lease(inHand: InHand, jobMessage: MessageJob, run: RunAs): AmqpLease {
    const deps = { ...this.#deps.lease, onOver: this.#onOver }
    inHand.lease = new AmqpLease(deps, inHand.delivery, jobMessage, run)
    return inHand.lease
  }

  /** Its queue is paused; until the broadcast that says so has arrived, RabbitMQ would send it right back. */
  #giveBackSoon(inHand: InHand): void {
    setTimeout(() => {
      inHand.delivery.giveBack()
      this.#drop(inHand)
    }, REQUEUE_MS).unref()
  }

  #run(inHand: InHand, run: RunAs): void {
    const { delivery } = inHand
    const jobMessage = this.#read(delivery)
    if (!jobMessage) {
      this.#drop(inHand)
      return
    }
    const lease = this.#lease(inHand, jobMessage, run)
    if (isExpired(jobMessage, this.#deps.context().wall)) {
      void lease.expire()
      return
    }
    this.#deps.sink.deliver(lease)
  }

  /** Reads the job message. Null: it is not an OJS job, and was dead-lettered as the gateway would do. */
  #read(delivery: LiveDelivery): MessageJob | null {
    try {
      return messageJob(delivery, this.#deps.context())
    } catch (error) {
      this.#reject(delivery, error)
      return null
    }
  }

  #reject(delivery: LiveDelivery, error: unknown): void {
    const { id, queue } = delivery
    this.#deps.logger.warn(
      { err: error, queue, job_id: id },
      'message is not an OJS job; it is dead-lettered',
    )
    delivery.deadLetter()
  }

  readonly #onOver = (lease: AmqpLease, ending: Ending): void => {
    const { delivery, job } = lease
    if (ending !== 'give-back') {
      const { generation, attempt } = delivery
      this.#ended.set(job.id, { generation, attempt, ending })
    }
    const inHand = this.#inHand.get(job.id)
    if (inHand?.lease === lease) this.#drop(inHand)
  }

  /** Removes the job from those in hand, and holds its next job messages for a slot. */
  #drop(inHand: InHand): void {
    this.#inHand.delete(inHand.delivery.id)
    for (const delivery of inHand.next) {
      if (this.#isDecided(delivery)) continue
      // Must be claimed: what ran here meanwhile may have made it obsolete (docs/reference/control-protocol.md §2).
      this.#hasWaited.add(delivery)
      this.#held.insert(delivery)
    }
    if (inHand.next.length > 0) queueMicrotask(() => this.pump())
  }
}

/**
 * True while a job with a concurrency key is being claimed. The gateway may hold it back, and let it go with another
 * message of the same attempt before the answer is here: then that message is the only one.
 */
function isAskedFor({ isKeyed, lease }: InHand): boolean {
  return isKeyed === true && lease === null
}

/** Negative if `jobMessage` is older than `other`. */
function compare(
  jobMessage: { generation: number; attempt: number },
  other: { generation: number; attempt: number },
): number {
  return jobMessage.generation - other.generation || jobMessage.attempt - other.attempt
}

/** Remembers a value for each of the newest `limit` ids; the oldest id is dropped first. */
export class KnownIds<T> {
  readonly #limit: number
  readonly #ids = new InsertionOrderedMap<string, T>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get(id: string): T | undefined {
    return this.#ids.get(id)
  }

  set(id: string, known: T): void {
    this.#ids.set(id, known)
    if (this.#ids.size > this.#limit) this.#ids.dropOldest()
  }
}
