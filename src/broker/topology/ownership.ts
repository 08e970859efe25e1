/** One ledger for each broker and prefix: the exclusive queue of the owner. */
import { randomUUID } from 'node:crypto'
import type { Channel } from 'amqplib'
import type { Clock } from '../../clock.ts'
import type { Logger } from '../../logger.ts'
import { type ChannelFailure, classify, closeChannel } from '../connection/channel-error.ts'
import { type Connection, isStill } from '../connection/connection.ts'
import { withScratchChannel } from '../connection/temporary-channel.ts'
import { lookFor } from './entity.ts'
import { joinMembers } from './ledger-members.ts'
import type { QueueEntity, Topology } from './topology.ts'

/** A restarted gateway finds its own old socket still dying; later retries come about every 2 s. */
const FIRST_RETRY_MS = 100
const MAX_RETRY_MS = 2_000
/**
 * Whoever holds the queue for longer is another, living gateway: our own dead socket does not last so long.
 * Before we take over, the queue must be free for as long: the node that the gateway is connected to may be
 * restarting.
 */
const RIVAL_MS = 60_000

export type OwnerState = 'asking' | 'owner' | 'foreign'

export interface OwnerDeps {
  connection: Connection
  topology: Topology
  clock: Pick<Clock, 'now'>
  logger: Logger
  /** Of a ledger that other gateways share; absent: nobody else has this ledger. */
  shared?: { ledgerId: string; exchange: string } | undefined
  /** Called also when the state is the same but `problem` may have changed. */
  onChange(state: OwnerState): void
}

/**
 * Enforces one ledger per broker and prefix: the exclusive queue `ojs.system.owner` belongs to the consume
 * connection. A second gateway gets 405 and waits; a dead owner's queue goes with its socket. A gateway that
 * waits beside a living owner does not take the queue while that owner reconnects, because its ledger does
 * not know the jobs in the broker.
 *
 * Gateways that share a ledger decide in it who is active, and the one before can write no more. So the active one
 * is the owner at once, also while RabbitMQ still keeps the dead socket of the one before, which has the queue.
 */
export class Owner {
  state: OwnerState = 'asking'
  /** Why the owner cannot be determined, if only an operator can change that; else null. */
  problem: string | null = null
  readonly #deps: OwnerDeps
  /** When another gateway was first seen to hold the queue; null: we held it last. */
  #foreignSince: number | null = null
  /** When another gateway was last seen to hold the queue. */
  #foreignUntil = 0
  /** With the queue; null: it is not ours. */
  #channel: Channel | null = null
  /** Of the present connection: another gateway of our ledger was connected when we were. */
  #isShared = false
  #joinedOn = 0
  /** Since when that one has had the queue, as far as we know. */
  #lockedSince: number | null = null
  #retry: NodeJS.Timeout | undefined
  #retryMs = FIRST_RETRY_MS
  #isStopped = false

  constructor(deps: OwnerDeps) {
    this.#deps = deps
    deps.connection.listen({
      up: () => {
        this.#retryMs = FIRST_RETRY_MS
        // The rival may have held the queue all the time, and have lost its connection together with us.
        if (this.#hasRival) this.#seeForeign()
        void this.claim()
      },
      down: () => {
        this.#channel = null
        this.#become('asking')
      },
    })
  }

  /** Never rejects; retries until the queue is ours or the connection is gone. */
  async claim(): Promise<void> {
    clearTimeout(this.#retry)
    const { connection } = this.#deps
    const { generation } = connection
    try {
      if (await this.#mayRivalComeBack()) {
        if (!isStill(connection, generation)) return
        this.#become('foreign')
        this.#claimLater()
        return
      }
      await this.#join()
      const channel = await connection.openChannel()
      await this.#declare(channel)
      if (!isStill(connection, generation)) return
      this.#channel = channel
      this.#lockedSince = null
      this.#become('owner')
    } catch (error) {
      if (!isStill(connection, generation)) return
      this.#refused(error)
      this.#claimLater()
    }
  }

  #refused(error: unknown): void {
    const failure = classify(error)
    if (failure.kind === 'locked' && this.#isPredecessor()) this.#become('owner')
    else if (failure.kind === 'locked' || error instanceof OtherLedger) {
      this.#seeForeign()
      this.#become('foreign')
    } else this.#complain(failure, error)
  }

  /** Once for each connection. */
  async #join(): Promise<void> {
    const { connection, topology, shared } = this.#deps
    const { generation } = connection
    if (shared === undefined || this.#joinedOn === generation) return
    const { ledgerId, exchange } = shared
    const membership = await joinMembers(connection, {
      // A new one each time: RabbitMQ may still keep the one before, with our dead socket.
      ...{ exchange, ledgerId, member: `${exchange}.${randomUUID()}` },
      queueArguments: topology.owner(connection.serverVersion).arguments,
    })
    if (membership === 'other') throw new OtherLedger()
    this.#isShared = membership === 'shared'
    this.#joinedOn = generation
    this.#lockedSince = null
  }

  /** Whoever has the queue had our ledger before us. Its dead socket does not last longer. */
  #isPredecessor(): boolean {
    if (!this.#isShared) return false
    const now = this.#deps.clock.now()
    this.#lockedSince ??= now
    return now - this.#lockedSince < RIVAL_MS
  }

  /** Deletes the queue: the next gateway need not wait until RabbitMQ notices that our socket is dead. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#retry)
    if (this.state !== 'owner') return
    const { name } = this.#queue()
    await this.#channel?.deleteQueue(name).catch(() => {})
  }

  get #hasRival(): boolean {
    return this.#foreignSince !== null && this.#foreignUntil - this.#foreignSince >= RIVAL_MS
  }

  #queue(): QueueEntity {
    const { connection, topology } = this.#deps
    return topology.owner(connection.serverVersion)
  }

  #seeForeign(): void {
    this.#foreignUntil = this.#deps.clock.now()
    this.#foreignSince ??= this.#foreignUntil
  }

  /** True while a rival may come back, since it has not been gone for long. Only looks for the queue. */
  async #mayRivalComeBack(): Promise<boolean> {
    if (!this.#hasRival || this.#deps.clock.now() - this.#foreignUntil >= RIVAL_MS) return false
    const { name } = this.#queue()
    const { presence } = await withScratchChannel(this.#deps.connection, (scratch) =>
      lookFor(scratch, { entity: 'queue', name }),
    )
    if (presence === 'exists') this.#seeForeign()
    return true
  }

  async #declare(channel: Channel): Promise<void> {
    const queue = this.#queue()
    // A lock: it must vanish with its connection.
    const lock = { durable: false, exclusive: true }
    await channel.assertQueue(queue.name, { ...lock, arguments: queue.arguments })
    // Nobody publishes here. The consumer serves to notice that an operator deletes the queue: from then on
    // another gateway could take it.
    const onMessage = (message: unknown) => {
      if (message !== null || this.#isStopped) return
      this.#deps.logger.warn({ queue: queue.name }, 'the owner queue was deleted')
      void closeChannel(channel)
      this.#channel = null
      this.#become('asking')
      void this.claim()
    }
    await channel.consume(queue.name, onMessage, { noAck: true })
  }

  /** Logs once per reason, since the claim is retried every two seconds. */
  #complain(failure: ChannelFailure, error: unknown): void {
    const { name } = this.#queue()
    const isRefused = failure.kind === 'access-refused'
    const problem = isRefused ? `${entityIn(failure.text) ?? name}: access refused` : null
    if (problem === null || problem !== this.problem) {
      this.#deps.logger.warn({ err: error, queue: name }, 'cannot claim the owner queue')
    }
    this.problem = problem
    this.#deps.onChange(this.state)
  }

  #claimLater(): void {
    if (this.#isStopped) return
    this.#retry = setTimeout(() => void this.claim(), this.#retryMs)
    this.#retry.unref()
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS)
  }

  #become(state: OwnerState): void {
    this.problem = null
    if (state === 'owner') this.#foreignSince = null
    if (this.state === state) return
    if (state === 'foreign') {
      this.#deps.logger.error(
        {},
        'another gateway with another ledger serves this RabbitMQ and prefix',
      )
    } else if (this.state === 'foreign' && state === 'owner') {
      this.#deps.logger.warn({}, 'the other gateway is gone: this one serves from now on')
    }
    this.state = state
    this.#deps.onChange(state)
  }
}

/** What RabbitMQ names first: `access to exchange 'e' in vhost '/' refused for user 'u'`. */
function entityIn(text: string): string | undefined {
  return /'([^']+)'/.exec(text)?.[1]
}

/** Gateways of another ledger are connected. */
class OtherLedger extends Error {
  override readonly name = 'OtherLedger'
}
