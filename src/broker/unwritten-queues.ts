import type { Channel, ChannelModel } from 'amqplib'
import type { Logger } from '../logger.ts'
import type { Connection } from './connection.ts'
import { lookFor } from './entity.ts'
import type { EntityChecker } from './entity-checker.ts'
import { isInTime } from './in-time.ts'
import type { Names } from './names.ts'
import type { BrokerHooks } from './options.ts'
import type { Outgoing } from './publish-lane.ts'
import { ScratchChannel } from './scratch-channel.ts'
import type { QueueEntity, Topology } from './topology.ts'

/** A queue with a leader answers at once; one without after 65 s, with the end of the connection. */
const ANSWER_MS = 5_000
/** RabbitMQ deletes a queue without a leader after 5 s in vain (3.10.8). */
const DELETE_MS = 30_000

export interface UnwrittenQueuesDeps {
  connection: Connection
  names: Names
  topology: Topology
  checker: EntityChecker
  hooks: Pick<BrokerHooks, 'isUnwritten' | 'onWritten'>
  logger: Logger
  /** Those that were checked on the present connection. */
  readyQueues(): Iterable<string>
}

/**
 * Quorum queues that we have declared and that RabbitMQ may come back without, when it is killed: with
 * another of the name, which is empty and never has a leader (`unwritten.ts`). Such a one takes nothing
 * and gives nothing, for ever, and only its deletion helps.
 *
 * Only where the list of hosts names one: in a cluster the leader may be on a node that is still away.
 */
export class UnwrittenQueues {
  readonly #deps: UnwrittenQueuesDeps
  /** Were ready at the last look, on the connection of that generation. */
  #seen = { on: 0, queues: new Set<string>() }
  /** Being asked or replaced, by their names in the broker. */
  readonly #inHand = new Set<string>()

  constructor(deps: UnwrittenQueuesDeps) {
    this.#deps = deps
  }

  /**
   * Looks come further apart than RabbitMQ's writing takes: what was ready at the last one, on this
   * connection, is written. Rejects where the ledger cannot be written.
   */
  async settle(): Promise<void> {
    const { connection, hooks, readyQueues } = this.#deps
    const { generation } = connection
    const before = this.#seen.on === generation ? this.#seen.queues : new Set<string>()
    const unwritten = [...readyQueues()].filter((queue) => hooks.isUnwritten(queue))
    this.#seen = { on: generation, queues: new Set(unwritten) }
    for (const queue of unwritten) if (before.has(queue)) await hooks.onWritten(queue)
  }

  /**
   * What is lost of an OJS queue is deleted, for the caller to declare it. Where the job queue is,
   * `onLost` hears of it before, and whether its control queue is lost too; its false keeps all as it
   * is, and is the answer. A classic job queue can do without the others for a time: they are mended
   * beside it.
   */
  async mend(
    scratch: ScratchChannel,
    queue: string,
    onLost: (isControlLost: boolean) => Promise<boolean>,
  ): Promise<boolean> {
    const { connection, hooks, topology } = this.#deps
    if (!hooks.isUnwritten(queue)) return true
    const entities = topology.ofQueue(queue, connection.serverVersion)
    if (!entities.filter(isQuorum).some(isJobQueue)) {
      void this.#mendBeside(entities)
      return true
    }
    const lost = await this.#take(scratch, entities)
    try {
      const isControlLost = lost.some(({ kind }) => kind === 'control')
      if (lost.some(isJobQueue) && !(await onLost(isControlLost))) return false
      await this.#delete(lost)
      return true
    } finally {
      this.#letGo(lost)
    }
  }

  /**
   * Does it lead to one of those that are being looked after? What is on its way into a dead queue costs
   * its connection when the queue is deleted (541).
   */
  isInHand({ exchange, routingKey }: Pick<Outgoing, 'exchange' | 'routingKey'>): boolean {
    if (this.#inHand.size === 0) return false
    const { names } = this.#deps
    if (exchange === names.exchange.direct) return this.#inHand.has(names.jobQueue(routingKey))
    return exchange === names.exchange.dlx && this.#inHand.has(names.dlxQueue(routingKey))
  }

  /** Never rejects. */
  async #mendBeside(queues: readonly QueueEntity[]): Promise<void> {
    const { checker, connection, logger } = this.#deps
    const scratch = new ScratchChannel(connection)
    let lost: QueueEntity[] = []
    try {
      lost = await this.#take(scratch, queues)
      await this.#delete(lost)
      for (const queue of lost) await checker.ensure(scratch, queue)
    } catch (err) {
      logger.warn({ err }, 'new queues could not be looked after')
    } finally {
      this.#letGo(lost)
      await scratch.close()
    }
  }

  /**
   * Those that are there, have nothing in them, and do not answer. They are the caller's until he lets
   * them go: nobody else may delete what he declares.
   */
  async #take(scratch: ScratchChannel, queues: readonly QueueEntity[]): Promise<QueueEntity[]> {
    if (!this.#deps.connection.hasOneHost) return []
    const asked = queues.filter(isQuorum).filter(({ name }) => !this.#inHand.has(name))
    for (const { name } of asked) this.#inHand.add(name)
    let lost: QueueEntity[] = []
    try {
      lost = await emptyOf(scratch, await this.#silentOf(await emptyOf(scratch, asked)))
    } finally {
      this.#letGo(asked.filter((queue) => !lost.includes(queue)))
    }
    return lost
  }

  #letGo(queues: readonly QueueEntity[]): void {
    for (const { name } of queues) this.#inHand.delete(name)
  }

  async #silentOf(queues: readonly QueueEntity[]): Promise<QueueEntity[]> {
    // A message that comes after all goes back with the connection.
    const answers = await this.#ask(queues, ANSWER_MS, (channel, name) => channel.get(name))
    return queues.filter((_, i) => answers[i] === false)
  }

  /** Whoever declares them next gets sound ones. Where it fails, they stay as they are. */
  async #delete(queues: readonly QueueEntity[]): Promise<void> {
    for (const { name } of queues) {
      const text =
        'RabbitMQ has come back with a dead queue in the place of a new one: it is deleted'
      this.#deps.logger.warn({ entity: name }, text)
    }
    await this.#ask(queues, DELETE_MS, (channel, name) => channel.deleteQueue(name))
  }

  /** Of each: was there an answer in time? On a connection of its own, which it may cost. */
  async #ask(
    queues: readonly QueueEntity[],
    ms: number,
    ask: (channel: Channel, name: string) => Promise<unknown>,
  ): Promise<(boolean | undefined)[]> {
    if (queues.length === 0) return []
    const { connection, logger } = this.#deps
    try {
      const { model, end } = await connection.openBeside('mend')
      const isAnswered = async ({ name }: QueueEntity) => {
        const channel = await openOn(model)
        // What is refused has been answered.
        return isInTime(
          ask(channel, name).catch(() => {}),
          ms,
        )
      }
      return await Promise.all(queues.map(isAnswered)).finally(end)
    } catch (err) {
      logger.warn({ err }, 'new queues could not be asked whether they have come back')
      return []
    }
  }
}

function isQuorum({ arguments: given }: QueueEntity): boolean {
  return given['x-queue-type'] === 'quorum'
}

function isJobQueue({ kind }: QueueEntity): boolean {
  return kind === 'job'
}

async function emptyOf(
  scratch: ScratchChannel,
  queues: readonly QueueEntity[],
): Promise<QueueEntity[]> {
  const empty: QueueEntity[] = []
  for (const queue of queues) {
    const { presence, ready, consumers } = await lookFor(scratch, queue)
    if (presence === 'exists' && ready + consumers === 0) empty.push(queue)
  }
  return empty
}

async function openOn(model: ChannelModel): Promise<Channel> {
  const channel = await model.createChannel()
  channel.on('error', () => {})
  return channel
}
