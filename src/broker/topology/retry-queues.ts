/** The TTL queues of retries: declared when first needed, checked, counted. */
import type { Clock } from '../../clock.ts'
import { LADDER_MS, retryQueueKey } from '../../job/retry/backoff.ts'
import type { Logger } from '../../logger.ts'
import { Slots } from '../../slots.ts'
import type { EnsureOutcome } from '../broker.ts'
import { type Connection, isStill } from '../connection/connection.ts'
import { type ScratchChannel, withScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import type { BrokerOptions, QueueRecords } from '../options.ts'
import { checkEach } from './ensure-all.ts'
import { lookFor, UNWRITTEN_MS } from './entity.ts'
import type { EntityChecker } from './entity-checker.ts'
import type { QueueEntity, Topology } from './topology.ts'

/**
 * Most retry queues per queue that are not on the ladder: exact delays of its clients (docs/architecture.md
 * §4.3).
 */
const MAX_EXACT = 16
/** How long a refused retry queue counts as unusable: a hot path must not ask the broker for every retry. */
const REFUSED_MS = 60_000
/** The same when the broker could not be asked; also how soon a known retry queue is checked again. */
const RETRY_MS = 5_000
/**
 * How long a retry queue that may lack a leader gets no job message. After that, one retry shows whether it
 * does.
 */
const DOUBT_MS = 600_000
/** A timer may be early. */
const LOOK_AGAIN_AFTER_MS = 20
/** Interval of the check for deleted retry queues: otherwise only a returned publish would reveal one. */
const PATROL_MS = 30_000
const MAX_REMEMBERED = 10_000
/** Retry queues that are checked at a time, whoever asks: each takes a channel, as a queue's check does. */
const LOOKS_AT_ONCE = 16
/** As for queues. A check also waits for that of its job queue. */
const LOOK_PATIENCE_MS = 5_000

const ON_LADDER: ReadonlySet<number> = new Set(LADDER_MS)

type Outcome = 'ready' | 'refused' | 'unavailable' | 'settling'

interface RetryQueue {
  readonly queue: string
  readonly delayMs: number
}

export interface RetryQueuesDeps {
  connection: Connection
  topology: Topology
  names: Names
  checker: EntityChecker
  options: Pick<BrokerOptions, 'declare' | 'maxRetryQueues' | 'retryQueueSettleMs'>
  hooks: {
    queues: Pick<
      QueueRecords,
      'recordedRetryQueues' | 'onRetryQueueDeclared' | 'onRetryQueueMissing'
    >
  }
  clock: Clock
  logger: Logger
  /** Ensures the job queue, which must exist before a retry queue that dead-letters to it. */
  ensureQueue(queue: string): Promise<EnsureOutcome>
  /**
   * True: never declare a known retry queue anew that is gone. The gateway does, since it knows the lost
   * jobs.
   */
  leavesMissing?: boolean
  /**
   * Called before a missing retry queue is declared: it may be known to another process, which has jobs in
   * it.
   */
  askForRetryQueue?(queue: string, delayMs: number): Promise<unknown>
}

/**
 * The retry queues `ojs.queue.retry.{queue}.{ms}` (docs/architecture.md §3, §4.3; seed 002 §8.2). They are
 * declared when first needed, and used only while they are known to have our arguments and after RabbitMQ has
 * had time to write them to disk.
 *
 * No retry queue is declared while a cluster node is down, as far as the host list tells: the replica that
 * this node gets when it is back forwards nothing (3.10.8) if it becomes the leader before the node's next
 * start. Retries would stay in it, in none of RabbitMQ's counts.
 *
 * With the strategy `never` no retry queue is used: a passive declare does not show the arguments, and an
 * active one, which compares them, would create a retry queue that was deleted at that moment. The ledger
 * then holds every retry.
 */
export class RetryQueues {
  readonly #deps: RetryQueuesDeps
  /** Recorded or declared earlier: job messages may wait in them. */
  readonly #known = new Map<string, RetryQueue>()
  /** About to be declared; they count against the limits too. */
  readonly #starting = new Map<string, RetryQueue>()
  /** Declared or compared on the present connection. */
  readonly #ready = new Set<string>()
  readonly #unusableUntil = new Map<string, number>()
  /** From when new or doubtful retry queues may be used. */
  readonly #settledAt = new Map<string, number>()
  readonly #flights = new Map<string, Promise<Outcome>>()
  readonly #looks = new Slots(LOOKS_AT_ONCE, LOOK_PATIENCE_MS)
  /** Records that were read on the connection of generation `#readFor`. */
  readonly #read = new Set<string>()
  #readFor = 0
  #isPatrolling = false
  #patrol: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined

  constructor(deps: RetryQueuesDeps) {
    this.#deps = deps
    deps.connection.listen({
      down: () => {
        this.#forgetAll()
        for (const key of this.#settledAt.keys())
          if (this.#settlesForMs(key) > 0) this.#holdBack(key)
      },
    })
  }

  /** The delays of the queue's known retry queues. */
  delaysOf(queue: string): number[] {
    return [...this.#known.values()]
      .filter((retryQueue) => retryQueue.queue === queue)
      .map((retryQueue) => retryQueue.delayMs)
  }

  /** The queue is gone, with its retry queues and their records. */
  forget(queue: string): void {
    for (const delayMs of this.delaysOf(queue)) {
      const key = retryQueueKey(queue, delayMs)
      this.#forget(key)
      for (const keys of [this.#known, this.#settledAt, this.#read]) keys.delete(key)
    }
  }

  start(): void {
    this.#patrol ??= setInterval(() => void this.patrol(), PATROL_MS)
    this.#patrol.unref()
  }

  stop(): void {
    clearInterval(this.#patrol)
    clearTimeout(this.#retry)
  }

  isReady(queue: string, delayMs: number): boolean {
    return this.#ready.has(retryQueueKey(queue, delayMs))
  }

  async ensure(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    return answerOf(await this.#ensure({ queue, delayMs }))
  }

  /** RabbitMQ did not answer a publish to this retry queue: the ledger holds the next retries. */
  doubt(queue: string, delayMs: number): void {
    const key = retryQueueKey(queue, delayMs)
    this.#ready.delete(key)
    this.#holdBack(key)
  }

  /** Checks the retry queue again after a sign that it may be gone. */
  async recheck(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    const key = retryQueueKey(queue, delayMs)
    this.#forget(key)
    // A running flight may have looked before the retry queue went.
    await this.#flights.get(key)
    this.#forget(key)
    const outcome = await this.#ensure({ queue, delayMs })
    if (outcome === 'unavailable') this.#retryLater()
    return answerOf(outcome)
  }

  /** Checks all retry queues again: an exchange may be gone, and their bindings with it. */
  recheckAll(): Promise<void> {
    this.#forgetAll()
    return this.ensureKnown()
  }

  /** To be called after each (re)connect, once the queues are ensured. Never rejects. */
  async ensureKnown(): Promise<void> {
    clearTimeout(this.#retry)
    if (!this.#deps.connection.isUp) return
    this.#readRecords()
    await checkEach([...this.#known], async ([key, retryQueue]) => {
      this.#unusableUntil.delete(key)
      if ((await this.#ensure(retryQueue)) === 'unavailable') this.#retryLater()
    })
  }

  /**
   * Checks that the known retry queues still exist, including those that are unusable for now, because job
   * messages may wait in them. Never rejects.
   */
  async patrol(): Promise<void> {
    if (this.#isPatrolling || !this.#deps.connection.isUp) return
    this.#isPatrolling = true
    try {
      await withScratchChannel(this.#deps.connection, async (scratch) => {
        // First those that native workers have reported since: they leave it to us to declare a lost retry
        // queue.
        for (const retryQueue of this.#readRecords()) await this.#ensure(retryQueue)
        for (const key of [...this.#known.keys()]) await this.#lookAgain(scratch, key)
      })
    } finally {
      this.#isPatrolling = false
    }
  }

  async #lookAgain(scratch: ScratchChannel, key: string): Promise<void> {
    const retryQueue = this.#known.get(key)
    if (!retryQueue) return
    const name = this.#deps.names.retryQueue(retryQueue.queue, retryQueue.delayMs)
    const { presence } = await lookFor(scratch, { entity: 'queue', name })
    if (presence === 'missing') await this.recheck(retryQueue.queue, retryQueue.delayMs)
  }

  #ensure(retryQueue: RetryQueue): Promise<Outcome> {
    const key = retryQueueKey(retryQueue.queue, retryQueue.delayMs)
    if (this.#ready.has(key)) return Promise.resolve('ready')
    const running = this.#flights.get(key)
    if (running !== undefined) return running
    if (!this.#deps.connection.isUp) return Promise.resolve('unavailable')
    if (this.#isBelievedUnusable(key)) return Promise.resolve('refused')
    this.#readRecords()
    if (!this.#reserve(key, retryQueue)) {
      this.#remember(key, REFUSED_MS)
      return Promise.resolve('refused')
    }
    const flight = this.#runCheck(key, retryQueue).finally(() => this.#flights.delete(key))
    this.#flights.set(key, flight)
    return flight
  }

  /** Never rejects. */
  async #runCheck(key: string, retryQueue: RetryQueue): Promise<Outcome> {
    const { connection, logger } = this.#deps
    const { generation } = connection
    let outcome: Outcome = 'unavailable'
    try {
      const check = (scratch: ScratchChannel) =>
        this.#check(scratch, key, retryQueue).finally(() => this.#starting.delete(key))
      outcome = await this.#looks.run(() => withScratchChannel(connection, check))
    } catch (error) {
      logger.error({ err: error, ...retryQueue }, 'retry queue cannot be declared or checked')
    }
    // What a lost connection has shown may no longer be true.
    if (!isStill(connection, generation)) return 'unavailable'
    if (outcome === 'ready') {
      this.#ready.add(key)
      logger.debug(retryQueue, 'retry queue is ready')
    } else if (outcome === 'settling') this.#awaitSettling(key, retryQueue)
    else this.#remember(key, outcome === 'refused' ? REFUSED_MS : RETRY_MS)
    return outcome
  }

  async #check(scratch: ScratchChannel, key: string, retryQueue: RetryQueue): Promise<Outcome> {
    const { askForRetryQueue, connection, ensureQueue, leavesMissing, options, topology } =
      this.#deps
    const entity = topology.retryQueue(
      retryQueue.queue,
      retryQueue.delayMs,
      connection.serverVersion,
    )
    const { presence } = await lookFor(scratch, entity)
    if (presence === 'unavailable') return 'unavailable'
    const isGone = presence === 'missing' && this.#known.has(key)
    if (isGone) await this.#noteMissing(key, retryQueue)
    if (options.declare === 'never' || (isGone && leavesMissing)) return 'refused'
    if ((await ensureQueue(retryQueue.queue)) !== 'ready') return 'unavailable'
    if (presence === 'missing') {
      if (!(await connection.areAllHostsUp())) return 'unavailable'
      await askForRetryQueue?.(retryQueue.queue, retryQueue.delayMs)
    }
    return this.#declare(scratch, entity, key, retryQueue)
  }

  /**
   * The retry queue's job messages are lost: the ledger takes their jobs back before anything new can go
   * there.
   */
  async #noteMissing(key: string, retryQueue: RetryQueue): Promise<void> {
    if (!this.#known.has(key)) return
    this.#deps.logger.warn(
      { ...retryQueue },
      'retry queue is gone; the ledger takes over the retries that waited in it',
    )
    await this.#deps.hooks.queues.onRetryQueueMissing(retryQueue.queue, retryQueue.delayMs)
    this.#known.delete(key)
    this.#starting.set(key, retryQueue)
  }

  async #declare(
    scratch: ScratchChannel,
    entity: QueueEntity,
    key: string,
    retryQueue: RetryQueue,
  ): Promise<Outcome> {
    const found = await this.#deps.checker.ensure(scratch, entity)
    if (found.state === 'unavailable' || found.state === 'away') return 'unavailable'
    if (found.state !== 'ready') {
      // A queue's arguments never change, so our retry queue was deleted and this is another queue.
      const isAnother = found.state === 'kept' && found.warning.code === 'queue_differs'
      if (isAnother) await this.#noteMissing(key, retryQueue)
      return 'refused'
    }
    if (!this.#known.has(key)) {
      const { clock, hooks, options } = this.#deps
      this.#settledAt.set(key, clock.now() + (options.retryQueueSettleMs ?? UNWRITTEN_MS))
      await hooks.queues.onRetryQueueDeclared(retryQueue.queue, retryQueue.delayMs)
      this.#read.add(key)
      this.#known.set(key, retryQueue)
    }
    return this.#settlesForMs(key) > 0 ? 'settling' : 'ready'
  }

  /**
   * A new one is looked at again when it may be used: failures that cannot wait for a look use it only if it is
   * ready already.
   */
  #awaitSettling(key: string, retryQueue: RetryQueue): void {
    const forMs = this.#settlesForMs(key)
    this.#remember(key, forMs)
    if (forMs >= DOUBT_MS / 2) return
    setTimeout(() => void this.#ensure(retryQueue), forMs + LOOK_AGAIN_AFTER_MS).unref()
  }

  #holdBack(key: string): void {
    this.#settledAt.set(key, this.#deps.clock.now() + DOUBT_MS)
  }

  #settlesForMs(key: string): number {
    const leftMs = (this.#settledAt.get(key) ?? 0) - this.#deps.clock.now()
    if (leftMs <= 0) this.#settledAt.delete(key)
    return Math.max(0, leftMs)
  }

  /** False: a limit is reached, or the strategy forbids declaring. */
  #reserve(key: string, retryQueue: RetryQueue): boolean {
    if (this.#known.has(key)) return true
    const { declare: strategy, maxRetryQueues } = this.#deps.options
    if (strategy === 'never') return false
    if (this.#known.size + this.#starting.size >= maxRetryQueues) {
      this.#warnOfLimit(maxRetryQueues)
      return false
    }
    if (!ON_LADDER.has(retryQueue.delayMs) && this.#exactOf(retryQueue.queue) >= MAX_EXACT)
      return false
    this.#starting.set(key, retryQueue)
    return true
  }

  #exactOf(queue: string): number {
    const isExact = (retryQueue: RetryQueue) =>
      retryQueue.queue === queue && !ON_LADDER.has(retryQueue.delayMs)
    const retryQueues = [...this.#known.values(), ...this.#starting.values()]
    return retryQueues.filter(isExact).length
  }

  #warnOfLimit(maxRetryQueues: number): void {
    this.#deps.checker.warn({
      code: 'too_many_rungs',
      message: `The limit of ${maxRetryQueues} retry queues (OJS_MAX_RUNGS) is reached: the ledger holds retries with other delays.`,
      details: { entity: this.#deps.names.exchange.retry, maxRetryQueues },
    })
  }

  /**
   * Takes over recorded retry queues, each once per connection: a retry queue recorded in an earlier run, or
   * by a native worker's report, may be gone with its job messages. Returns the new ones.
   */
  #readRecords(): RetryQueue[] {
    const { connection, hooks } = this.#deps
    if (this.#readFor !== connection.generation) this.#read.clear()
    this.#readFor = connection.generation
    const fresh = hooks.queues
      .recordedRetryQueues()
      .filter((retryQueue) => !this.#read.has(retryQueueKey(retryQueue.queue, retryQueue.delayMs)))
    for (const retryQueue of fresh) {
      const key = retryQueueKey(retryQueue.queue, retryQueue.delayMs)
      this.#read.add(key)
      this.#known.set(key, retryQueue)
    }
    return fresh
  }

  #isBelievedUnusable(key: string): boolean {
    const until = this.#unusableUntil.get(key)
    return until !== undefined && this.#deps.clock.now() < until
  }

  #remember(key: string, forMs: number): void {
    // Bounded, because clients choose the delays.
    if (this.#unusableUntil.size >= MAX_REMEMBERED) this.#unusableUntil.clear()
    this.#unusableUntil.set(key, this.#deps.clock.now() + forMs)
  }

  #forget(key: string): void {
    this.#ready.delete(key)
    this.#unusableUntil.delete(key)
  }

  #forgetAll(): void {
    this.#ready.clear()
    this.#unusableUntil.clear()
  }

  #retryLater(): void {
    clearTimeout(this.#retry)
    if (!this.#deps.connection.isUp) return
    this.#retry = setTimeout(() => void this.ensureKnown(), RETRY_MS)
    this.#retry.unref()
  }
}

function answerOf(outcome: Outcome): 'ready' | 'unusable' {
  return outcome === 'ready' ? 'ready' : 'unusable'
}
