import { pauseBeforeAgain } from './again.ts'
import { isAtLeast } from './arguments.ts'
import { isStill } from './connection.ts'
import { DeadQueueProbe, type ProbeDeps } from './dead-queue-probe.ts'
import { lookFor } from './entity.ts'
import type { EntityChecker } from './entity-checker.ts'
import type { BrokerHooks, BrokerOptions } from './options.ts'
import { type ScratchChannel, withScratchChannel } from './scratch-channel.ts'
import type { QueueEntity, Topology } from './topology.ts'
import { UNWRITTEN_MS } from './unwritten.ts'

/** Also how long it may take until one that is written counts as written. */
const SETTLE_MS = UNWRITTEN_MS / 2
/** Until what could not be looked at is looked at again. */
const AGAIN_MS = 5_000

/**
 * Of a job queue. `replaced`: it was dead, is deleted, and has to be declared. `left`: it is dead, and
 * stays. `unknown`: it may be dead, and could not be asked or deleted.
 */
type Verdict = 'sound' | 'replaced' | 'left' | 'unknown'

export interface DeadQueuesDeps extends ProbeDeps {
  topology: Topology
  checker: EntityChecker
  options: Pick<BrokerOptions, 'declare'>
  hooks: Pick<BrokerHooks, 'isUnwritten' | 'onWritten'>
  /** Checked or declared on the present connection. */
  isReady(queue: string): boolean
  /** What belongs to the queue has been looked at, and is doubtful no more. */
  onMended(queue: string): void
}

/**
 * Quorum queues that we have declared and that RabbitMQ has come back without, because it was killed
 * before it had written them down (`unwritten.ts`): in their place is another, which is empty and never
 * has a leader. It takes nothing and gives nothing, for ever, and only its deletion helps.
 *
 * A queue that only has no majority at the moment looks the same. So no other is deleted than one that
 * was unwritten when RabbitMQ went, where the list of hosts names one, and while another quorum queue of
 * ours answers.
 */
export class DeadQueues {
  readonly #deps: DeadQueuesDeps
  readonly #probe: DeadQueueProbe
  /** Their job queues have answered, or are replaced, on the present connection. */
  readonly #alive = new Set<string>()
  /** And so have those that belong to them, or they were declared on it: when, by `performance.now()`. */
  readonly #soundSince = new Map<string, number>()
  /** Their dead letter and control queues are, or will be, looked at while their jobs flow. */
  readonly #beside = new Set<string>()
  /** They are dead on the present connection, and stay. */
  readonly #left = new Set<string>()
  readonly #stopping = new AbortController()
  /** One after another: each has a connection of its own. */
  #mendingBeside: Promise<void> = Promise.resolve()
  #settling: NodeJS.Timeout | undefined

  constructor(deps: DeadQueuesDeps) {
    this.#deps = deps
    this.#probe = new DeadQueueProbe(deps)
    deps.connection.listen({
      down: () => {
        this.#soundSince.clear()
        this.#alive.clear()
        this.#left.clear()
      },
    })
  }

  /** About to be declared on the present connection. */
  noteDeclared(queue: string): void {
    this.#soundSince.set(queue, performance.now())
    this.#settleLater()
  }

  /** It has been declared, with all that belongs to it, or is as it was declared before. */
  noteReady(queue: string): void {
    if (this.#deps.hooks.isUnwritten(queue)) this.noteDeclared(queue)
  }

  /** RabbitMQ refuses it, and has none of its name. */
  notDeclared(queue: string): void {
    const { hooks, logger } = this.#deps
    this.#soundSince.delete(queue)
    hooks.onWritten(queue).catch((err: unknown) => {
      logger.warn({ err, queue }, 'a queue is remembered as declared that is not')
    })
  }

  stop(): void {
    this.#stopping.abort()
    clearTimeout(this.#settling)
  }

  /** It may be dead, and nobody has looked at it on the present connection yet. */
  isDoubtful(queue: string): boolean {
    return this.#mayBeDead(queue) && !this.#alive.has(queue) && !this.#deps.isReady(queue)
  }

  /**
   * The same of its dead letter and control queues. What is on its way into a dead queue costs its
   * connection when that is deleted (541), and so does a consumer.
   */
  isBesideDoubtful(queue: string): boolean {
    return this.#beside.has(queue) || this.isDoubtful(queue)
  }

  /**
   * Looks at an OJS queue that is there. Where its job queue is dead, `isReplaceable` is asked before that
   * is deleted; false: it stays. Jobs can do without what belongs to it for a time: that is looked at, and
   * declared anew, beside it.
   */
  async mend(
    scratch: ScratchChannel,
    queue: string,
    isReplaceable: () => Promise<boolean>,
  ): Promise<Verdict> {
    const { connection, topology } = this.#deps
    if (!this.#mayBeDead(queue)) return 'sound'
    // Whoever has to decide has not, and asking takes 5 s.
    if (this.#left.has(queue) && !(await isReplaceable())) return 'left'
    const { generation, serverVersion } = connection
    const entities = topology.ofQueue(queue, serverVersion).filter(isQuorum)
    const dead = await this.#probe.deadOf(scratch, entities.filter(isJobQueue))
    if (dead === null) return 'unknown'
    if (dead.length > 0 && !(await isReplaceable())) {
      this.#left.add(queue)
      return 'left'
    }
    const isDone = await this.#probe.delete(dead)
    if (!isDone || !isStill(connection, generation)) return 'unknown'
    this.#alive.add(queue)
    this.#mendBeside(queue, entities.filter(isOwn))
    return dead.length > 0 ? 'replaced' : 'sound'
  }

  #mayBeDead(queue: string): boolean {
    const { connection, hooks, options } = this.#deps
    if (!hooks.isUnwritten(queue) || this.#soundSince.has(queue)) return false
    if (options.declare === 'never' || !connection.hasOneHost) return false
    // From 4.3 on RabbitMQ forgets none; which it is nobody knows before there is a connection.
    const isForgetful = !connection.isUp || !isAtLeast(connection.serverVersion, 4, 3)
    return isForgetful && connection.isAfterRestart
  }

  #settleLater(): void {
    if (this.#stopping.signal.aborted) return
    this.#settling ??= setTimeout(() => {
      void this.#settle().finally(() => {
        this.#settling = undefined
        const { isUnwritten } = this.#deps.hooks
        if ([...this.#soundSince.keys()].some((queue) => isUnwritten(queue))) this.#settleLater()
      })
    }, SETTLE_MS).unref()
  }

  /** What has been sound for long enough is written, or waits for the next look. Never rejects. */
  async #settle(): Promise<void> {
    const { hooks, isReady, logger } = this.#deps
    const before = performance.now() - UNWRITTEN_MS
    const isOld = ([queue, since]: [string, number]) =>
      since < before && hooks.isUnwritten(queue) && isReady(queue) && !this.#beside.has(queue)
    const old = [...this.#soundSince].filter(isOld)
    if (old.length === 0 || !(await this.#isThere())) return
    const written = old.filter(([queue, since]) => this.#soundSince.get(queue) === since)
    try {
      await Promise.all(written.map(([queue]) => hooks.onWritten(queue)))
    } catch (err) {
      logger.warn({ err }, 'queues are remembered as unwritten that are written')
    }
  }

  /**
   * RabbitMQ answers on the present connection, so it has not been killed as long as that exists. A
   * connection that has lost its peer in a power cut looks well for up to 30 s.
   */
  async #isThere(): Promise<boolean> {
    const { connection, names } = this.#deps
    const exchange = { entity: 'exchange' as const, name: names.exchange.direct }
    const { presence } = await withScratchChannel(connection, (it) => lookFor(it, exchange))
    return presence !== 'unavailable'
  }

  #mendBeside(queue: string, entities: readonly QueueEntity[]): void {
    if (this.#beside.has(queue)) return
    this.#beside.add(queue)
    this.#mendInTurn(queue, entities)
  }

  /** Again and again, where nobody knows. */
  #mendInTurn(queue: string, entities: readonly QueueEntity[]): void {
    const { signal } = this.#stopping
    this.#mendingBeside = this.#mendingBeside.then(async () => {
      if (signal.aborted) return
      const { connection } = this.#deps
      const { generation } = connection
      // What was learned on a connection that is gone says nothing any more.
      if ((await this.#isMended(queue, entities)) && isStill(connection, generation)) {
        this.#beside.delete(queue)
        this.noteDeclared(queue)
        this.#deps.onMended(queue)
        return
      }
      void pauseBeforeAgain(signal, AGAIN_MS).then(() => this.#mendInTurn(queue, entities))
    })
  }

  /** Never rejects. */
  async #isMended(queue: string, entities: readonly QueueEntity[]): Promise<boolean> {
    const { checker, connection, logger } = this.#deps
    try {
      return await withScratchChannel(connection, async (scratch) => {
        const dead = await this.#probe.deadOf(scratch, entities)
        if (dead === null || !(await this.#probe.delete(dead))) return false
        for (const entity of dead) await checker.ensure(scratch, entity)
        return true
      })
    } catch (err) {
      logger.warn({ err, queue }, 'what belongs to a new queue could not be looked after')
      return false
    }
  }
}

function isQuorum({ arguments: given }: QueueEntity): boolean {
  return given['x-queue-type'] === 'quorum'
}

function isJobQueue({ kind }: QueueEntity): boolean {
  return kind === 'job'
}

/** Not those that it shares with others. */
function isOwn({ kind }: QueueEntity): boolean {
  return kind === 'dlx' || kind === 'control'
}
