/** Quorum queues that RabbitMQ lost when it was killed: found and replaced. */
import { isStill } from '../connection/connection.ts'
import { pauseBeforeAgain } from '../connection/reconnect.ts'
import { type ScratchChannel, withScratchChannel } from '../connection/temporary-channel.ts'
import type { BrokerOptions, QueueRecords } from '../options.ts'
import { lookFor, UNWRITTEN_MS } from './entity.ts'
import type { EntityChecker } from './entity-checker.ts'
import { deadAmong, deleteDead, type ProbeDeps } from './leaderless-queue-probe.ts'
import { isAtLeast } from './queue-arguments.ts'
import type { QueueEntity, Topology } from './topology.ts'

/** Interval of `#settle`, so also how long a queue may count as unwritten after it has been written. */
const SETTLE_MS = UNWRITTEN_MS / 2
/** Pause before a queue whose state could not be determined is checked again. */
const AGAIN_MS = 5_000

/**
 * State of a job queue. `replaced`: it was dead and is deleted; the caller declares it. `left`: it is dead
 * and stays. `unknown`: it may be dead, but RabbitMQ could not be asked or could not delete it.
 */
type Verdict = 'sound' | 'replaced' | 'left' | 'unknown'

export interface LeaderlessQueuesDeps extends ProbeDeps {
  topology: Topology
  checker: EntityChecker
  options: Pick<BrokerOptions, 'declare'>
  hooks: { queues: Pick<QueueRecords, 'isUnwritten' | 'onWritten'> }
  /** Checked or declared on the present connection. */
  isReady(queue: string): boolean
  /** The queue's own dead letter and control queues have been checked and are no longer doubtful. */
  onMended(queue: string): void
}

/**
 * Finds and replaces dead queues: quorum queues that this gateway declared and that RabbitMQ lost because it
 * was killed before it had written them down (`entity.ts`). RabbitMQ comes back with another queue of the
 * same name, which is empty and never gets a leader. It accepts and delivers nothing; only deleting it helps.
 *
 * A queue that merely lacks a majority at the moment looks the same. So a queue is deleted only if it was
 * unwritten when RabbitMQ went, the host list names a single host, and another quorum queue of ours answers.
 */
export class LeaderlessQueues {
  readonly #deps: LeaderlessQueuesDeps
  /** Queues whose job queue answered, or was replaced, on the present connection. */
  readonly #alive = new Set<string>()
  /** Queues that are sound on this connection with all that belongs to them: since `performance.now()`. */
  readonly #soundSince = new Map<string, number>()
  /** Queues whose dead letter and control queues are being checked, or will be, while their jobs flow. */
  readonly #beside = new Set<string>()
  /** Queues that were found dead on the present connection, and stay. */
  readonly #left = new Set<string>()
  readonly #stopping = new AbortController()
  /** Serializes the checks of `#mendInTurn`, because each opens a connection of its own. */
  #mendingBeside: Promise<void> = Promise.resolve()
  #settling: NodeJS.Timeout | undefined

  constructor(deps: LeaderlessQueuesDeps) {
    this.#deps = deps
    deps.connection.listen({
      down: () => {
        this.#soundSince.clear()
        this.#alive.clear()
        this.#left.clear()
      },
    })
  }

  /** The queue is about to be declared on the present connection. */
  noteDeclared(queue: string): void {
    this.#soundSince.set(queue, performance.now())
    this.#settleLater()
  }

  /** The queue and the entities that belong to it were declared, or exist as they were declared before. */
  noteReady(queue: string): void {
    if (this.#deps.hooks.queues.isUnwritten(queue)) this.noteDeclared(queue)
  }

  /** RabbitMQ refuses the declare, and no queue of this name exists. */
  notDeclared(queue: string): void {
    const { hooks, logger } = this.#deps
    this.#soundSince.delete(queue)
    hooks.queues.onWritten(queue).catch((err: unknown) => {
      logger.warn(
        { err, queue },
        'queue does not exist, but the ledger still records it as newly declared',
      )
    })
  }

  /** The queue is gone for good. */
  forget(queue: string): void {
    this.#soundSince.delete(queue)
    this.#alive.delete(queue)
  }

  stop(): void {
    this.#stopping.abort()
    clearTimeout(this.#settling)
  }

  /** True when the queue may be dead and has not been checked on the present connection yet. */
  isDoubtful(queue: string): boolean {
    return this.#mayBeDead(queue) && !this.#alive.has(queue) && !this.#deps.isReady(queue)
  }

  /**
   * The same for its dead letter and control queues. A publish on its way into a dead queue costs its
   * connection (541) when that queue is deleted; so does a consumer of a dead queue.
   */
  isBesideDoubtful(queue: string): boolean {
    return this.#beside.has(queue) || this.isDoubtful(queue)
  }

  /**
   * Checks an existing OJS queue. If its job queue is dead, deletes it, unless `isReplaceable` resolves to
   * false. The queue's own dead letter and control queues are checked and redeclared in the background: jobs
   * can do without them for a time.
   */
  async mend(
    scratch: ScratchChannel,
    queue: string,
    isReplaceable: () => Promise<boolean>,
  ): Promise<Verdict> {
    const { connection, topology } = this.#deps
    if (!this.#mayBeDead(queue)) return 'sound'
    // The operator has not decided yet, and probing the queue again would take 5 s.
    if (this.#left.has(queue) && !(await isReplaceable())) return 'left'
    const { generation, serverVersion } = connection
    const entities = topology.ofQueue(queue, serverVersion).filter(isQuorum)
    const dead = await deadAmong(this.#deps, scratch, entities.filter(isJobQueue))
    if (dead === null) return 'unknown'
    if (dead.length > 0 && !(await isReplaceable())) {
      this.#left.add(queue)
      return 'left'
    }
    const isDone = await deleteDead(this.#deps, dead)
    if (!isDone || !isStill(connection, generation)) return 'unknown'
    this.#alive.add(queue)
    this.#mendBeside(queue, entities.filter(isOwn))
    return dead.length > 0 ? 'replaced' : 'sound'
  }

  #mayBeDead(queue: string): boolean {
    const { connection, hooks, options } = this.#deps
    if (!hooks.queues.isUnwritten(queue) || this.#soundSince.has(queue)) return false
    if (options.declare === 'never' || !connection.hasOneHost) return false
    // RabbitMQ 4.3 and later loses no queue. The version is unknown before there is a connection.
    const isForgetful = !connection.isUp || !isAtLeast(connection.serverVersion, 4, 3)
    return isForgetful && connection.isAfterRestart
  }

  #settleLater(): void {
    if (this.#stopping.signal.aborted) return
    this.#settling ??= setTimeout(() => {
      void this.#settle().finally(() => {
        this.#settling = undefined
        const { isUnwritten } = this.#deps.hooks.queues
        if ([...this.#soundSince.keys()].some((queue) => isUnwritten(queue))) this.#settleLater()
      })
    }, SETTLE_MS).unref()
  }

  /** Records queues that have been sound for long enough as written; the others wait. Never rejects. */
  async #settle(): Promise<void> {
    const { hooks, isReady, logger } = this.#deps
    const before = performance.now() - UNWRITTEN_MS
    const isOld = ([queue, since]: [string, number]) =>
      since < before &&
      hooks.queues.isUnwritten(queue) &&
      isReady(queue) &&
      !this.#beside.has(queue)
    const old = [...this.#soundSince].filter(isOld)
    if (old.length === 0 || !(await this.#isBrokerAlive())) return
    const written = old.filter(([queue, since]) => this.#soundSince.get(queue) === since)
    try {
      await Promise.all(written.map(([queue]) => hooks.queues.onWritten(queue)))
    } catch (err) {
      logger.warn(
        { err },
        'queues are on disk, but the ledger still records them as newly declared',
      )
    }
  }

  /**
   * True when RabbitMQ answers on the present connection, and so has not been killed since it was opened.
   * Without asking, a connection that lost its peer in a power cut looks sound for up to 30 s.
   */
  async #isBrokerAlive(): Promise<boolean> {
    const { connection, names } = this.#deps
    const exchange = { entity: 'exchange' as const, name: names.exchange.direct }
    const { presence } = await withScratchChannel(connection, (scratch) =>
      lookFor(scratch, exchange),
    )
    return presence !== 'unavailable'
  }

  #mendBeside(queue: string, entities: readonly QueueEntity[]): void {
    if (this.#beside.has(queue)) return
    this.#beside.add(queue)
    this.#mendInTurn(queue, entities)
  }

  /** Repeats itself after a pause for as long as the state cannot be determined. */
  #mendInTurn(queue: string, entities: readonly QueueEntity[]): void {
    const { signal } = this.#stopping
    this.#mendingBeside = this.#mendingBeside.then(async () => {
      if (signal.aborted) return
      const { connection } = this.#deps
      const { generation } = connection
      // What a lost connection has shown no longer counts.
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
        const dead = await deadAmong(this.#deps, scratch, entities)
        if (dead === null || !(await deleteDead(this.#deps, dead))) return false
        for (const entity of dead) await checker.ensure(scratch, entity)
        return true
      })
    } catch (err) {
      logger.warn(
        { err, queue },
        'dead letter queue and control queue of a new queue could not be checked',
      )
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

/** The queue's own dead letter and control queues; system queues are shared between queues. */
function isOwn({ kind }: QueueEntity): boolean {
  return kind === 'dlx' || kind === 'control'
}
