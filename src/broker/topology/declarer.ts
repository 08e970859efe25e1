/** The only code that declares: `ensure` for every known queue (docs/architecture.md §2). */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../logger.ts'
import { Slots } from '../../slots.ts'
import type { EnsureOutcome, Presence } from '../broker.ts'
import { type Connection, isStill } from '../connection/connection.ts'
import { type ScratchChannel, withScratchChannel } from '../connection/temporary-channel.ts'
import type { BrokerOptions, QueueRecords } from '../options.ts'
import { checkEach, type EntityDeps, ensureAll, type Found } from './ensure-all.ts'
import { lookFor, missing } from './entity.ts'
import type { LeaderlessQueues } from './leaderless-queues.ts'
import { QueueStandings } from './queue-standings.ts'
import type { Entity, Topology } from './topology.ts'

const RETRY_MS = 5_000
/** After cancelling the consumers, RabbitMQ 4.3 took 40 ms to forget the queue; a busy 4.0 took 400 ms. */
const DYING_MS = 500
/**
 * Queues that are looked at or declared at a time, whoever asks: each takes a channel, and questions of
 * workers (`sync`), requests and batches together may name thousands. A connection that has used up its
 * channels answers nobody.
 */
const LOOKS_AT_ONCE = 32
/** A look at a queue whose node is down may take minutes, and must not hold up the others. */
const LOOK_PATIENCE_MS = 5_000

/** Why a queue is not declared. */
type Refusal = Exclude<EnsureOutcome, 'ready'>

export interface DeclarerDeps extends EntityDeps {
  connection: Connection
  topology: Topology
  options: Pick<BrokerOptions, 'declare' | 'queues' | 'maxQueues'>
  hooks: { queues: Pick<QueueRecords, 'onQueueMissing' | 'recordedQueues'> }
  logger: Logger
  /** True when the existing queue is the one that received our job messages (`queue-identity.ts`). */
  isSame?(scratch: ScratchChannel, queue: string): Promise<boolean>
  /**
   * Handles queues that RabbitMQ lost in a crash (`leaderless-queues.ts`). Absent: another process does that.
   */
  dead?: LeaderlessQueues
  /** Runs before the exchanges and system queues are declared. False: try again later. */
  prepareBase?(): Promise<boolean>
  /** True when our other connections are up, so that RabbitMQ has not restarted as far as we know. */
  isElsewhereUp?(): boolean
  onReady?(queue: string): void
  /** The queue is missing and will be declared now. */
  onDeclare(queue: string): void
  /** Runs before `onQueueMissing`, so that pending reports about the queue's jobs are handled first. */
  catchUp?(queue: string, scratch: ScratchChannel): Promise<unknown>
  /** The check found that the job queue does not exist. */
  onMissing?(queue: string): void
  /** The exchanges, the system queues and the control queue of `default` were checked. */
  onBase?(outcome: EnsureOutcome): void
  /** Every queue that was known has been checked too. */
  onKnown?(): void
}

/**
 * The only code that declares (docs/architecture.md §2, "Queue missing"). Single flight per queue. The result
 * of a check holds for one connection, so every known queue is checked again after each (re)connect (seed 002
 * §11.3) and whenever there is a sign that a queue may be gone.
 */
export class Declarer {
  readonly #deps: DeclarerDeps
  readonly #queues: QueueStandings
  readonly #looks = new Slots(LOOKS_AT_ONCE, LOOK_PATIENCE_MS)
  #isBaseIncomplete = false
  readonly #flights = new Map<string, Promise<EnsureOutcome>>()
  #base: Promise<EnsureOutcome> | null = null
  #retry: NodeJS.Timeout | undefined

  constructor(deps: DeclarerDeps) {
    this.#deps = deps
    this.#queues = new QueueStandings(deps.options)
    deps.connection.listen({ down: () => this.#onDown() })
  }

  isReady(queue: string): boolean {
    return this.#queues.ready.has(queue)
  }

  /** May get messages: ready, or assumed to be ready while the declare connection is reopened. */
  isUsable(queue: string): boolean {
    return this.#queues.isUsable(queue)
  }

  /** True when the queue must get no messages: it can drop them unseen (`losses.ts`), or is being deleted. */
  isClosed(queue: string): boolean {
    return this.#queues.isLossy(queue) || this.#queues.leaving.has(queue)
  }

  /** To be called when RabbitMQ may have restarted. */
  believeNone(): void {
    this.#queues.believed.clear()
  }

  isKnown(queue: string): boolean {
    return this.#queues.known.has(queue)
  }

  knownQueues(): Iterable<string> {
    return this.#queues.known
  }

  /** Checked or declared on the present connection. */
  readyQueues(): Iterable<string> {
    return this.#queues.ready
  }

  /** Asks the broker whether the queue exists; declares nothing. An existing queue is known from then on. */
  async probe(queue: string): Promise<Presence> {
    // The flight may be about to find that the queue is going away.
    await this.#flights.get(queue)
    await this.#queues.leaving.get(queue)
    const name = this.#deps.names.jobQueue(queue)
    const { presence } = await this.#look((scratch) => lookFor(scratch, { entity: 'queue', name }))
    if (presence !== 'exists') return presence
    this.#queues.known.add(queue)
    // Handle the loss before anyone consumes the queue: afterwards it looks as if it had never been away.
    const { dead } = this.#deps
    if (this.#queues.dying.has(queue) || dead?.isDoubtful(queue)) await this.ensure(queue)
    return dead?.isDoubtful(queue) ? 'unavailable' : presence
  }

  ensure(queue: string): Promise<EnsureOutcome> {
    const leaving = this.#queues.leaving.get(queue)
    if (leaving !== undefined) return leaving.then(() => this.ensure(queue))
    const checked = this.#queues.checked(queue)
    if (checked !== null) return Promise.resolve(checked)
    const running = this.#flights.get(queue)
    if (running !== undefined) return running
    const flight = this.#ensureQueue(queue).finally(() => this.#flights.delete(queue))
    this.#flights.set(queue, flight)
    return flight
  }

  /** Checks again after a sign that the queue may be gone: a return, a cancel, a 404. */
  recheck(queue: string): Promise<EnsureOutcome> {
    this.#queues.believed.delete(queue)
    return this.lookAgain(queue)
  }

  /** Checks again without such a sign, for a caller who must not rely on an earlier check. */
  async lookAgain(queue: string): Promise<EnsureOutcome> {
    this.#queues.ready.delete(queue)
    // A running flight may have looked before the queue went.
    await this.#flights.get(queue)
    this.#queues.ready.delete(queue)
    const outcome = await this.ensure(queue)
    if (outcome === 'unavailable') this.#retryLater()
    return outcome
  }

  /** The queue's consumers were cancelled, or got 404: the queue is gone, or will be in a moment. */
  recheckDying(queue: string): Promise<EnsureOutcome> {
    this.#queues.dying.add(queue)
    return this.recheck(queue)
  }

  /**
   * Runs `work`, which deletes the queue; meanwhile the queue gets no messages, and `ensure` waits. False:
   * the queue stays, and was checked again. Never rejects.
   */
  async leave(queue: string, work: (scratch: ScratchChannel) => Promise<boolean>) {
    if (this.#flights.has(queue) || this.#queues.leaving.has(queue)) return false
    const { connection, logger } = this.#deps
    const deleted = this.#queues.leave(queue, () => withScratchChannel(connection, work))
    const isGone = await deleted.catch((err: unknown) => {
      logger.warn({ err, queue }, 'idle queue cannot be deleted')
      return false
    })
    if (!isGone) await this.lookAgain(queue)
    return isGone
  }

  /** Checks everything again after a publish was answered with 404: an exchange may be gone. */
  recheckAll(): Promise<void> {
    this.#forget()
    this.believeNone()
    return this.ensureKnown()
  }

  /** Ensures exchanges and system queues, then every known queue. Never rejects. */
  async ensureKnown(): Promise<void> {
    clearTimeout(this.#retry)
    const base = await this.ensureBase()
    if (base !== 'ready') this.#retryLater()
    if (base === 'unavailable') return
    for (const queue of this.#deps.hooks.queues.recordedQueues()) this.#queues.known.add(queue)
    await checkEach(this.#queues.known, async (queue) => {
      await this.#queues.leaving.get(queue)
      if (!this.#queues.known.has(queue)) return
      const outcome = await this.ensure(queue)
      if (outcome === 'unavailable') this.#retryLater()
      else if (outcome === 'missing') await this.#lookAtAll(queue)
    })
    this.#deps.onKnown?.()
  }

  /** Ensures the configured queues, which must exist before any client asks for them. Never rejects. */
  async ensureConfigured(): Promise<void> {
    if ((await this.ensureBase()) === 'unavailable') return
    const configured = this.#deps.options.queues.filter((queue) => this.#queues.known.has(queue))
    await checkEach(configured, async (queue) => void (await this.ensure(queue)))
  }

  /** Ensures exchanges and system queues. Single flight; once per connection. Never rejects. */
  ensureBase(): Promise<EnsureOutcome> {
    if (this.#base !== null) return this.#base
    const flight = this.#lookAtBase().then(({ outcome, isAnyAway }) => {
      // Discard the result of an earlier connection's flight: a newer flight is running or has finished.
      if (this.#base !== flight) return outcome
      this.#isBaseIncomplete = isAnyAway
      if (isAnyAway) this.#retryLater()
      // A failure is not kept: an administrator may create or permit what was missing at any time.
      if (outcome !== 'ready') this.#base = null
      this.#deps.onBase?.(outcome)
      return outcome
    })
    this.#base = flight
    return flight
  }

  stop(): void {
    clearTimeout(this.#retry)
  }

  /** With `never`: warns about everything that the queue lacks, instead of the first missing entity only. */
  async #lookAtAll(queue: string): Promise<void> {
    const { checker, connection, options, topology } = this.#deps
    if (options.declare !== 'never') return
    await withScratchChannel(connection, async (scratch) => {
      for (const entity of topology.ofQueue(queue, this.#version())) {
        await checker.ensure(scratch, entity)
      }
    })
  }

  #onDown(): void {
    if (this.#deps.isElsewhereUp?.())
      for (const queue of this.#queues.ready) this.#queues.believed.add(queue)
    this.#forget()
  }

  #forget(): void {
    this.#queues.ready.clear()
    this.#base = null
  }

  /** Entities on a node that was down may be back by now, or lost for good: check them again. */
  #forgetIncomplete(): void {
    for (const queue of this.#queues.incomplete) this.#queues.ready.delete(queue)
    if (this.#isBaseIncomplete) this.#base = null
  }

  #retryLater(): void {
    clearTimeout(this.#retry)
    if (!this.#deps.connection.isUp) return
    this.#retry = setTimeout(() => {
      this.#forgetIncomplete()
      void this.ensureKnown()
    }, RETRY_MS)
    this.#retry.unref()
  }

  #version(): string {
    return this.#deps.connection.serverVersion
  }

  /** Never rejects. */
  async #lookAtBase(): Promise<Found> {
    const { connection, logger, names, prepareBase, topology } = this.#deps
    try {
      if ((await prepareBase?.()) !== false) {
        const entities = topology.base(this.#version())
        return await withScratchChannel(connection, (scratch) =>
          ensureAll(this.#deps, scratch, entities, names.exchange.direct),
        )
      }
    } catch (error) {
      logger.error({ err: error }, 'exchanges and system queues cannot be declared or checked')
    }
    return { outcome: 'unavailable', isAnyAway: false }
  }

  async #ensureQueue(queue: string): Promise<EnsureOutcome> {
    const base = await this.ensureBase()
    if (base !== 'ready') return base
    return await this.#look((scratch) => this.#ensureWith(scratch, queue))
  }

  /** `work` must not look itself: all slots could be taken by works that wait for one. */
  #look<T>(work: (scratch: ScratchChannel) => Promise<T>): Promise<T> {
    return this.#looks.run(() => withScratchChannel(this.#deps.connection, work))
  }

  /** Never rejects. */
  async #ensureWith(scratch: ScratchChannel, queue: string): Promise<EnsureOutcome> {
    const { generation } = this.#deps.connection
    try {
      const permission = await this.#prepareDeclare(scratch, queue)
      if (permission !== 'go-on') return permission
      const entities = this.#deps.topology.ofQueue(queue, this.#version())
      const name = this.#deps.names.jobQueue(queue)
      const { outcome, isAnyAway } = await ensureAll(this.#deps, scratch, entities, name)
      this.#queues.noteIncomplete(queue, isAnyAway)
      if (isAnyAway) this.#retryLater()
      if (outcome === 'access-refused') this.#refused(queue, entities)
      const exists = outcome === 'ready' || outcome === 'lossy'
      if (exists && isStill(this.#deps.connection, generation)) {
        this.#queues.noteReady(queue, outcome)
        this.#deps.onReady?.(queue)
      }
      return outcome
    } catch (error) {
      this.#deps.logger.error({ err: error, queue }, 'queue cannot be declared or checked')
      return 'unavailable'
    } finally {
      this.#queues.release(queue)
    }
  }

  #refused(queue: string, entities: readonly Entity[]): void {
    this.#deps.dead?.notDeclared(queue)
    if (!this.#queues.known.has(queue)) this.#deps.checker.letPass(entities)
  }

  /**
   * Decides by the job queue whether anything may be declared. If the job queue is gone, its jobs get new
   * outbox nonces, committed before the declare: a job published between the declare and that commit would
   * otherwise look as if its job message had been in the lost queue. `go-on`: the queue exists, or may be
   * declared now.
   */
  async #prepareDeclare(scratch: ScratchChannel, queue: string): Promise<'go-on' | Refusal> {
    const jobQueue = { entity: 'queue' as const, name: this.#deps.names.jobQueue(queue) }
    const found = await this.#find(scratch, queue, jobQueue)
    if (found === 'unavailable') return 'unavailable'
    if (found !== 'missing') {
      const isReplaceable = () => this.#mayRedeclare(scratch, queue, false)
      const verdict = (await this.#deps.dead?.mend(scratch, queue, isReplaceable)) ?? 'sound'
      if (verdict === 'unknown') return 'unavailable'
      if (verdict === 'left') return 'lost'
      if (verdict === 'replaced') this.#deps.onDeclare(queue)
      if (verdict === 'replaced' || found === 'exists') return 'go-on'
    }
    const refusal = found === 'renewed' ? null : this.#queues.reserve(queue)
    if (refusal) {
      this.#noteMissing(queue)
      // A client's typo in a queue name is no concern of the operator.
      if (this.#queues.known.has(queue)) this.#deps.checker.warn(missing(jobQueue))
      return refusal
    }
    if (!(await this.#mayRedeclare(scratch, queue, found === 'renewed'))) return 'lost'
    this.#deps.onDeclare(queue)
    return 'go-on'
  }

  /** Handles the loss of the queue, even if another of its name exists. False: an operator has to decide. */
  async #mayRedeclare(
    scratch: ScratchChannel,
    queue: string,
    isRenewed: boolean,
  ): Promise<boolean> {
    const { catchUp, checker, hooks, names } = this.#deps
    this.#noteMissing(queue)
    await catchUp?.(queue, scratch)
    const decision = await hooks.queues.onQueueMissing(queue, isRenewed)
    if (decision === 'leave')
      checker.warn(missing({ entity: 'queue', name: names.jobQueue(queue) }))
    return decision === 'declare'
  }

  #noteMissing(queue: string): void {
    this.#queues.noteMissing(queue)
    this.#deps.onMissing?.(queue)
  }

  /**
   * Looks for the job queue. `renewed`: the existing queue is another one of the same name, whoever declared
   * it. Its identity tells. A dying queue that has no identity yet counts as another one when it is empty and
   * has no consumers after a wait.
   *
   * RabbitMQ 4 first cancels the consumers of a deleted quorum queue and forgets the queue later. A check in
   * between still finds it; the declare that follows would create a new one, and the loss of the job messages
   * would go unhandled.
   */
  async #find(
    scratch: ScratchChannel,
    queue: string,
    jobQueue: Pick<Entity, 'entity' | 'name'>,
  ): Promise<Presence | 'renewed'> {
    const { presence, away } = await lookFor(scratch, jobQueue)
    // Only for known queues: nothing would check an unknown one again and withdraw the warning.
    if (away && this.#queues.known.has(queue)) this.#deps.checker.warn(away)
    if (presence !== 'exists') return presence
    if ((await this.#deps.isSame?.(scratch, queue)) === false) return 'renewed'
    if (!this.#queues.dying.has(queue)) return presence
    await sleep(DYING_MS, undefined, { ref: false })
    const later = await lookFor(scratch, jobQueue)
    if (later.presence !== 'exists') return later.presence
    if (later.ready + later.consumers === 0) return 'renewed'
    return (await this.#deps.isSame?.(scratch, queue)) === false ? 'renewed' : 'exists'
  }
}
