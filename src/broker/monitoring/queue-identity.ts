/** Is a queue still the one that we published to, or was it declared anew? */
import type { Logger } from '../../logger.ts'
import { uuid7 } from '../../uuid.ts'
import type { Presence } from '../broker.ts'
import { classify } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import type { BrokerOptions, JobCounts, QueueRecords } from '../options.ts'
import { lookFor } from '../topology/entity.ts'

/** Prefix of identities that an export includes; an earlier build's were internal and had no prefix. */
const EXPORTED = 'q-'

export interface QueueIdentitiesDeps {
  connection: Connection
  names: Names
  logger: Logger
  hooks: {
    queues: Pick<QueueRecords, 'identityOf' | 'recordIdentity'>
    jobs: Pick<JobCounts, 'hasMessages'>
  }
  /** The queues that were checked on the present connection. */
  readyQueues(): Iterable<string>
  options: Pick<BrokerOptions, 'declare'>
  /** The queue is gone, or another queue of the same name has taken its place. */
  onGone(queue: string): void
}

/**
 * Tells whether a job queue is still the one that received our job messages. If a queue was deleted, or lost
 * with the broker's data, and a native worker declares it anew before us, it looks as if it had been there
 * all the time. So each queue gets an identity: a durable exchange that nobody publishes to, bound to the
 * queue. RabbitMQ deletes it with its last binding, which goes with the queue.
 *
 * A queue imported from exported definitions is also another, empty queue, but comes with its identity. What
 * the import lacks is the origin, an internal exchange, which RabbitMQ leaves out of an export. An identity
 * must not be internal itself: RabbitMQ exports its binding all the same, and from 4.3 on refuses to import a
 * binding without its exchange.
 */
export class QueueIdentities {
  readonly #deps: QueueIdentitiesDeps
  /** Identities that are set and not recorded yet, by queue. */
  readonly #fresh = new Map<string, string>()
  /** Queues that vanished before they were marked; not tried again until a check has looked for them. */
  readonly #unmarkable = new Set<string>()
  /** The connection (generation) on which RabbitMQ refused an identity; other queues are not tried on it. */
  #refusedOn = 0
  /** The connection (generation) on which the origin was looked for, and whether it was missing. */
  #origin = { on: 0, isMissing: false }
  /** Identities that this process has set since then, so that they cannot come from an import. */
  readonly #own = new Set<string>()

  constructor(deps: QueueIdentitiesDeps) {
    this.#deps = deps
  }

  /** False: the queue lost its identity, or was imported. Throws when the ledger cannot be read. */
  async isSame(scratch: ScratchChannel, queue: string): Promise<boolean> {
    const identity = await this.#deps.hooks.queues.identityOf(queue)
    if (identity === null) return true
    if ((await this.#find(scratch, identity)) === 'missing') return false
    if (!isExported(identity)) return true
    return !(await this.#areImported(scratch)) || this.#own.has(identity)
  }

  /** The queue was looked for and does not exist: an identity set for it is gone too. */
  forget(queue: string): void {
    this.#fresh.delete(queue)
    this.#unmarkable.delete(queue)
  }

  /**
   * Marks queues that have no identity, and checks the identities of the others. A new identity is recorded
   * at the look after the one that set it. Throws when the ledger cannot be read.
   */
  async look(scratch: ScratchChannel): Promise<void> {
    for (const queue of this.#deps.readyQueues()) await this.#markOrCheck(scratch, queue)
  }

  async #markOrCheck(scratch: ScratchChannel, queue: string): Promise<void> {
    const { hooks, onGone } = this.#deps
    const identity = await hooks.queues.identityOf(queue)
    if (
      identity !== null &&
      hooks.jobs.hasMessages(queue) &&
      !(await this.isSame(scratch, queue))
    ) {
      onGone(queue)
    } else if (identity === null || !isExported(identity))
      await this.#mark(scratch, queue, identity)
  }

  /** `old`: the identity of an earlier build, which the new one replaces. */
  async #mark(scratch: ScratchChannel, queue: string, old: string | null): Promise<void> {
    const { connection, hooks, options } = this.#deps
    const fresh = this.#fresh.get(queue)
    if (fresh === undefined) {
      const isHopeless = this.#refusedOn === connection.generation || this.#unmarkable.has(queue)
      if (options.declare !== 'never' && !isHopeless) await this.#create(scratch, queue)
      return
    }
    this.#fresh.delete(queue)
    if ((await this.#find(scratch, fresh)) !== 'exists') return
    await hooks.queues.recordIdentity(queue, fresh)
    if (old !== null) await this.#delete(scratch, old)
  }

  async #create(scratch: ScratchChannel, queue: string): Promise<void> {
    const { connection, hooks, logger, names, onGone } = this.#deps
    const identity = EXPORTED + uuid7()
    const exchange = names.identity(identity)
    // Look first: once we declare the origin, imported identities can no longer be told apart.
    await this.#areImported(scratch)
    const declare = (name: string, options: object) =>
      scratch.run((channel) => channel.assertExchange(name, 'fanout', options))
    try {
      await declare(names.origin, { durable: true, internal: true })
      await declare(exchange, { durable: true, autoDelete: true })
      await scratch.run((channel) => channel.bindQueue(names.jobQueue(queue), exchange, ''))
      this.#fresh.set(queue, identity)
      this.#own.add(identity)
    } catch (error) {
      const { kind } = classify(error)
      logger.debug({ queue, reason: kind }, 'queue was not marked')
      if (kind === 'access-refused') this.#refusedOn = connection.generation
      if (kind === 'not-found') this.#unmarkable.add(queue)
      // Without a binding the identity would never delete itself.
      await this.#delete(scratch, identity)
      if (kind === 'not-found' && hooks.jobs.hasMessages(queue)) onGone(queue)
    }
  }

  /**
   * True when the existing identities come from imported definitions, as seen when the connection was new.
   */
  async #areImported(scratch: ScratchChannel): Promise<boolean> {
    const { connection, names } = this.#deps
    const { generation } = connection
    if (this.#origin.on !== generation) {
      const { presence } = await lookFor(scratch, { entity: 'exchange', name: names.origin })
      if (presence === 'unavailable' || generation !== connection.generation) return false
      // A concurrent call may have looked meanwhile, and the origin may have been declared since.
      if (this.#origin.on !== generation) {
        this.#origin = { on: generation, isMissing: presence === 'missing' }
        this.#own.clear()
      }
    }
    return this.#origin.isMissing
  }

  async #delete(scratch: ScratchChannel, identity: string): Promise<void> {
    const exchange = this.#deps.names.identity(identity)
    await scratch.run((channel) => channel.deleteExchange(exchange)).catch(() => {})
  }

  async #find(scratch: ScratchChannel, identity: string): Promise<Presence> {
    const exchange = { entity: 'exchange' as const, name: this.#deps.names.identity(identity) }
    return (await lookFor(scratch, exchange)).presence
  }
}

function isExported(identity: string): boolean {
  return identity.startsWith(EXPORTED)
}
