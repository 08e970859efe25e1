import type { Clock } from '../../clock.ts'
import { LADDER_MS, rungKey } from '../../job/retry/backoff.ts'
import type { Logger } from '../../logger.ts'
import type { EnsureOutcome } from '../broker.ts'
import { type Connection, isStill } from '../connection/connection.ts'
import { type ScratchChannel, withScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import type { BrokerHooks, BrokerOptions } from '../options.ts'
import { checkEach } from './ensure-all.ts'
import { lookFor, UNWRITTEN_MS } from './entity.ts'
import type { EntityChecker } from './entity-checker.ts'
import type { QueueEntity, Topology } from './topology.ts'

/** Most rungs per queue that are not on the ladder: exact delays of its clients (architecture §4.3). */
const MAX_EXACT = 16
/** How long a refused rung counts as unusable: a hot path must not ask the broker for every retry. */
const REFUSED_MS = 60_000
/** The same when the broker could not be asked; also how soon a known rung is checked again. */
const RETRY_MS = 5_000
/** How long a rung that may lack a leader gets no token. After that, one retry shows whether it does. */
const DOUBT_MS = 600_000
/** Interval of the check for deleted rungs: otherwise only a returned publish would reveal one. */
const PATROL_MS = 30_000
const MAX_REMEMBERED = 10_000

const ON_LADDER: ReadonlySet<number> = new Set(LADDER_MS)

type Outcome = 'ready' | 'refused' | 'unavailable' | 'settling'

interface Rung {
  readonly queue: string
  readonly delayMs: number
}

export interface RungsDeps {
  connection: Connection
  topology: Topology
  names: Names
  checker: EntityChecker
  options: Pick<BrokerOptions, 'declare' | 'maxRungs' | 'rungSettleMs'>
  hooks: Pick<BrokerHooks, 'recordedRungs' | 'onRungDeclared' | 'onRungMissing'>
  clock: Clock
  logger: Logger
  /** Ensures the job queue, which must exist before a rung that dead-letters to it. */
  ensureQueue(queue: string): Promise<EnsureOutcome>
  /** True: never declare a known rung anew that is gone. The gateway does, since it knows the lost jobs. */
  leavesMissing?: boolean
  /** Called before a missing rung is declared: it may be known to another process, which has jobs in it. */
  askForRung?(queue: string, delayMs: number): Promise<unknown>
}

/**
 * The retry rungs `ojs.queue.retry.{queue}.{ms}` (architecture §3, §4.3; seed 002 §8.2). They are declared
 * when first needed, and used only while they are known to have our arguments and after RabbitMQ has had time
 * to write them to disk.
 *
 * No rung is declared while a cluster node is down, as far as the host list tells: the replica that this node
 * gets when it is back forwards nothing (3.10.8) if it becomes the leader before the node's next start.
 * Retries would stay in it, in none of RabbitMQ's counts.
 *
 * With the strategy `never` no rung is used: a passive declare does not show the arguments, and an active
 * one, which compares them, would create a rung that was deleted at that moment. The ledger then holds every
 * retry.
 */
export class Rungs {
  readonly #deps: RungsDeps
  /** Recorded or declared earlier: tokens may wait in them. */
  readonly #known = new Map<string, Rung>()
  /** About to be declared; they count against the limits too. */
  readonly #starting = new Map<string, Rung>()
  /** Declared or compared on the present connection. */
  readonly #ready = new Set<string>()
  readonly #unusableUntil = new Map<string, number>()
  /** From when new or doubtful rungs may be used. */
  readonly #settledAt = new Map<string, number>()
  readonly #flights = new Map<string, Promise<Outcome>>()
  /** Records that were read on the connection of generation `#readFor`. */
  readonly #read = new Set<string>()
  #readFor = 0
  #isPatrolling = false
  #patrol: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined

  constructor(deps: RungsDeps) {
    this.#deps = deps
    deps.connection.listen({
      down: () => {
        this.#forgetAll()
        for (const key of this.#settledAt.keys())
          if (this.#settlesForMs(key) > 0) this.#holdBack(key)
      },
    })
  }

  /** The delays of the queue's known rungs. */
  delaysOf(queue: string): number[] {
    return [...this.#known.values()]
      .filter((rung) => rung.queue === queue)
      .map((rung) => rung.delayMs)
  }

  /** The queue is gone, with its rungs and their records. */
  forget(queue: string): void {
    for (const delayMs of this.delaysOf(queue)) {
      const key = rungKey(queue, delayMs)
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
    return this.#ready.has(rungKey(queue, delayMs))
  }

  async ensure(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    return answerOf(await this.#ensure({ queue, delayMs }))
  }

  /** RabbitMQ did not answer a publish to this rung: the ledger holds the next retries. */
  doubt(queue: string, delayMs: number): void {
    const key = rungKey(queue, delayMs)
    this.#ready.delete(key)
    this.#holdBack(key)
  }

  /** Checks the rung again after a sign that it may be gone. */
  async recheck(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    const key = rungKey(queue, delayMs)
    this.#forget(key)
    // A running flight may have looked before the rung went.
    await this.#flights.get(key)
    this.#forget(key)
    const outcome = await this.#ensure({ queue, delayMs })
    if (outcome === 'unavailable') this.#retryLater()
    return answerOf(outcome)
  }

  /** Checks all rungs again: an exchange may be gone, and their bindings with it. */
  recheckAll(): Promise<void> {
    this.#forgetAll()
    return this.ensureKnown()
  }

  /** To be called after each (re)connect, once the queues are ensured. Never rejects. */
  async ensureKnown(): Promise<void> {
    clearTimeout(this.#retry)
    if (!this.#deps.connection.isUp) return
    this.#readRecords()
    await checkEach([...this.#known], async ([key, rung]) => {
      this.#unusableUntil.delete(key)
      if ((await this.#ensure(rung)) === 'unavailable') this.#retryLater()
    })
  }

  /**
   * Checks that the known rungs still exist, including those that are unusable for now, because tokens may
   * wait in them. Never rejects.
   */
  async patrol(): Promise<void> {
    if (this.#isPatrolling || !this.#deps.connection.isUp) return
    this.#isPatrolling = true
    try {
      await withScratchChannel(this.#deps.connection, async (scratch) => {
        // First those that native workers have reported since: they leave it to us to declare a lost rung.
        for (const rung of this.#readRecords()) await this.#ensure(rung)
        for (const key of [...this.#known.keys()]) await this.#lookAgain(scratch, key)
      })
    } finally {
      this.#isPatrolling = false
    }
  }

  async #lookAgain(scratch: ScratchChannel, key: string): Promise<void> {
    const rung = this.#known.get(key)
    if (!rung) return
    const name = this.#deps.names.retryQueue(rung.queue, rung.delayMs)
    const { presence } = await lookFor(scratch, { entity: 'queue', name })
    if (presence === 'missing') await this.recheck(rung.queue, rung.delayMs)
  }

  #ensure(rung: Rung): Promise<Outcome> {
    const key = rungKey(rung.queue, rung.delayMs)
    if (this.#ready.has(key)) return Promise.resolve('ready')
    const running = this.#flights.get(key)
    if (running !== undefined) return running
    if (!this.#deps.connection.isUp) return Promise.resolve('unavailable')
    if (this.#isBelievedUnusable(key)) return Promise.resolve('refused')
    this.#readRecords()
    if (!this.#reserve(key, rung)) {
      this.#remember(key, REFUSED_MS)
      return Promise.resolve('refused')
    }
    const flight = this.#runCheck(key, rung).finally(() => this.#flights.delete(key))
    this.#flights.set(key, flight)
    return flight
  }

  /** Never rejects. */
  async #runCheck(key: string, rung: Rung): Promise<Outcome> {
    const { connection, logger } = this.#deps
    const { generation } = connection
    let outcome: Outcome = 'unavailable'
    try {
      outcome = await withScratchChannel(connection, (scratch) =>
        this.#check(scratch, key, rung).finally(() => this.#starting.delete(key)),
      )
    } catch (error) {
      logger.error({ err: error, ...rung }, 'retry queue cannot be declared or checked')
    }
    // What a lost connection has shown may no longer be true.
    if (!isStill(connection, generation)) return 'unavailable'
    if (outcome === 'ready') {
      this.#ready.add(key)
      logger.debug(rung, 'retry queue is ready')
    } else if (outcome === 'settling') this.#remember(key, this.#settlesForMs(key))
    else this.#remember(key, outcome === 'refused' ? REFUSED_MS : RETRY_MS)
    return outcome
  }

  async #check(scratch: ScratchChannel, key: string, rung: Rung): Promise<Outcome> {
    const { askForRung, connection, ensureQueue, leavesMissing, options, topology } = this.#deps
    const entity = topology.rung(rung.queue, rung.delayMs, connection.serverVersion)
    const { presence } = await lookFor(scratch, entity)
    if (presence === 'unavailable') return 'unavailable'
    const isGone = presence === 'missing' && this.#known.has(key)
    if (isGone) await this.#noteMissing(key, rung)
    if (options.declare === 'never' || (isGone && leavesMissing)) return 'refused'
    if ((await ensureQueue(rung.queue)) !== 'ready') return 'unavailable'
    if (presence === 'missing') {
      if (!(await connection.areAllHostsUp())) return 'unavailable'
      await askForRung?.(rung.queue, rung.delayMs)
    }
    return this.#declare(scratch, entity, key, rung)
  }

  /** The rung's tokens are lost: the ledger takes their jobs back before anything new can go there. */
  async #noteMissing(key: string, rung: Rung): Promise<void> {
    if (!this.#known.has(key)) return
    this.#deps.logger.warn(
      { ...rung },
      'retry queue is gone; the ledger takes over the retries that waited in it',
    )
    await this.#deps.hooks.onRungMissing(rung.queue, rung.delayMs)
    this.#known.delete(key)
    this.#starting.set(key, rung)
  }

  async #declare(
    scratch: ScratchChannel,
    entity: QueueEntity,
    key: string,
    rung: Rung,
  ): Promise<Outcome> {
    const found = await this.#deps.checker.ensure(scratch, entity)
    if (found.state === 'unavailable' || found.state === 'away') return 'unavailable'
    if (found.state !== 'ready') {
      // A queue's arguments never change, so our rung was deleted and this is another queue.
      const isAnother = found.state === 'kept' && found.warning.code === 'queue_differs'
      if (isAnother) await this.#noteMissing(key, rung)
      return 'refused'
    }
    if (!this.#known.has(key)) {
      const { clock, hooks, options } = this.#deps
      this.#settledAt.set(key, clock.now() + (options.rungSettleMs ?? UNWRITTEN_MS))
      await hooks.onRungDeclared(rung.queue, rung.delayMs)
      this.#read.add(key)
      this.#known.set(key, rung)
    }
    return this.#settlesForMs(key) > 0 ? 'settling' : 'ready'
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
  #reserve(key: string, rung: Rung): boolean {
    if (this.#known.has(key)) return true
    const { declare: strategy, maxRungs } = this.#deps.options
    if (strategy === 'never') return false
    if (this.#known.size + this.#starting.size >= maxRungs) {
      this.#warnOfLimit(maxRungs)
      return false
    }
    if (!ON_LADDER.has(rung.delayMs) && this.#exactOf(rung.queue) >= MAX_EXACT) return false
    this.#starting.set(key, rung)
    return true
  }

  #exactOf(queue: string): number {
    const isExact = (rung: Rung) => rung.queue === queue && !ON_LADDER.has(rung.delayMs)
    const rungs = [...this.#known.values(), ...this.#starting.values()]
    return rungs.filter(isExact).length
  }

  #warnOfLimit(maxRungs: number): void {
    this.#deps.checker.warn({
      code: 'too_many_rungs',
      message: `The limit of ${maxRungs} retry queues (OJS_MAX_RUNGS) is reached: the ledger holds retries with other delays.`,
      details: { entity: this.#deps.names.exchange.retry, maxRungs },
    })
  }

  /**
   * Takes over recorded rungs, each once per connection: a rung recorded in an earlier run, or by a native
   * worker's report, may be gone with its tokens. Returns the new ones.
   */
  #readRecords(): Rung[] {
    const { connection, hooks } = this.#deps
    if (this.#readFor !== connection.generation) this.#read.clear()
    this.#readFor = connection.generation
    const fresh = hooks
      .recordedRungs()
      .filter((rung) => !this.#read.has(rungKey(rung.queue, rung.delayMs)))
    for (const rung of fresh) {
      const key = rungKey(rung.queue, rung.delayMs)
      this.#read.add(key)
      this.#known.set(key, rung)
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
