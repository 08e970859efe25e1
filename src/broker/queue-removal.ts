/** Deletes queues that nobody uses, with all that belongs to them. */
import type { Logger } from '../logger.ts'
import { classify } from './connection/channel-error.ts'
import type { Connection } from './connection/connection.ts'
import type { ScratchChannel } from './connection/temporary-channel.ts'
import type { ControlConsumer } from './control/consumer.ts'
import type { BrokerOptions } from './options.ts'
import type { Declarer } from './topology/declarer.ts'
import { compareOrCreate, lookFor } from './topology/entity.ts'
import type { LeaderlessQueues } from './topology/leaderless-queues.ts'
import type { Forgetting, Removal } from './topology/removal.ts'
import type { RetryQueues } from './topology/retry-queues.ts'
import type { QueueEntity, Topology } from './topology/topology.ts'

export interface QueueRemovalDeps {
  connection: Connection
  topology: Topology
  declarer: Declarer
  options: Pick<BrokerOptions, 'declare' | 'queues'>
  logger: Logger
  dead: Pick<LeaderlessQueues, 'isBesideDoubtful'>
  control: Pick<ControlConsumer, 'release'>
  retryQueues: Pick<RetryQueues, 'delaysOf'>
  /** What else remembers queues. */
  memories: readonly { forget(queue: string): void }[]
}

export class QueueRemoval implements Removal {
  readonly #deps: QueueRemovalDeps

  constructor(deps: QueueRemovalDeps) {
    this.#deps = deps
  }

  isPermanent(queue: string): boolean {
    const { options, topology } = this.#deps
    return queue === 'default' || options.queues.includes(queue) || topology.hasSettings(queue)
  }

  async forget(queue: string, forgetting: Forgetting): Promise<boolean> {
    const { connection, dead, declarer, memories, options } = this.#deps
    // A queue that this gateway may not declare again when it is needed must stay.
    const isOurs = options.declare === 'lazy' && !this.isPermanent(queue)
    if (!isOurs || !connection.isUp || dead.isBesideDoubtful(queue)) return false
    const isGone = await declarer.leave(queue, async (scratch) => {
      // Asked after `leave` has begun: from then on, whoever stores a job waits before publishing it.
      if (!forgetting.isIdle()) return false
      return (await this.#delete(scratch, queue)) && (await forgetting.forget())
    })
    if (isGone) for (const memory of memories) memory.forget(queue)
    return isGone
  }

  /** False: something is in use, or could not be deleted. What was deleted is declared again then. */
  async #delete(scratch: ScratchChannel, queue: string): Promise<boolean> {
    const { connection, control, retryQueues, topology } = this.#deps
    const version = connection.serverVersion
    const entities = topology.ofQueue(queue, version)
    const ofKind = (kind: QueueEntity['kind']) => entities.filter((entity) => entity.kind === kind)
    for (const job of ofKind('job')) if (!(await isUnused(scratch, job))) return false
    await control.release(queue)
    for (const entity of [...ofKind('control'), ...ofKind('job')]) {
      if (!(await this.#deleteUnused(scratch, entity))) return false
    }
    // Nothing can get into these any more. What they still hold stays, for an operator.
    const delays = retryQueues.delaysOf(queue)
    const ofRetries = delays.map((delayMs) => topology.retryQueue(queue, delayMs, version))
    for (const entity of [...ofRetries, ...ofKind('dlx')]) await this.#deleteUnused(scratch, entity)
    for (const entity of ofKind('dead-letters')) await unbind(scratch, entity)
    return true
  }

  async #deleteUnused(scratch: ScratchChannel, entity: QueueEntity): Promise<boolean> {
    if ((await lookFor(scratch, entity)).presence === 'missing') return true
    if (!(await isUnused(scratch, entity))) return false
    // A queue with other arguments is somebody else's.
    if ((await compareOrCreate(scratch, entity)).state !== 'ready') return false
    const isClassic = entity.arguments['x-queue-type'] === 'classic'
    return isClassic
      ? await deleteIfUnused(scratch, entity)
      : await this.#deleteQuorum(scratch, entity)
  }

  /**
   * A quorum queue knows no `if-empty` and `if-unused`: RabbitMQ would close the connection (540). So nothing
   * is routed to it any more, then RabbitMQ says that it is empty, and then it is deleted.
   */
  async #deleteQuorum(scratch: ScratchChannel, entity: QueueEntity): Promise<boolean> {
    const { name } = entity
    await unbind(scratch, entity)
    // Not the count of a passive declare, which may be behind.
    const message = await scratch.run(async (channel) => {
      const found = await channel.get(name)
      if (found !== false) channel.nack(found, false, true)
      return found
    })
    // The declare that follows binds it again.
    if (message !== false) return false
    const { messageCount } = await scratch.run((channel) => channel.deleteQueue(name))
    if (messageCount > 0)
      this.#deps.logger.error(
        { entity: name, messageCount },
        'an idle queue was deleted with messages',
      )
    return true
  }
}

async function isUnused(scratch: ScratchChannel, entity: QueueEntity): Promise<boolean> {
  const { presence, away, ready, consumers } = await lookFor(scratch, entity)
  return presence === 'missing' || (presence === 'exists' && !away && ready + consumers === 0)
}

async function deleteIfUnused(scratch: ScratchChannel, { name }: QueueEntity): Promise<boolean> {
  try {
    await scratch.run((channel) => channel.deleteQueue(name, { ifEmpty: true, ifUnused: true }))
    return true
  } catch (error) {
    // 406: it is not empty, or has a consumer.
    if (classify(error).kind === 'unavailable') throw error
    return false
  }
}

async function unbind(scratch: ScratchChannel, { name, bindings }: QueueEntity): Promise<void> {
  for (const { exchange, key } of bindings)
    await scratch.run((channel) => channel.unbindQueue(name, exchange, key))
}
