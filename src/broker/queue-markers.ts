import type { Logger } from '../logger.ts'
import { uuid7 } from '../uuid.ts'
import { classify } from './amqp-error.ts'
import type { Connection } from './connection.ts'
import { lookFor, type Presence } from './entity.ts'
import type { Names } from './names.ts'
import type { BrokerHooks, BrokerOptions } from './options.ts'
import type { ScratchChannel } from './scratch-channel.ts'

export interface QueueMarkersDeps {
  connection: Connection
  names: Names
  logger: Logger
  hooks: Pick<BrokerHooks, 'markerOf' | 'onMarked' | 'hasTokens'>
  /** Those that were checked on the present connection. */
  readyQueues(): Iterable<string>
  options: Pick<BrokerOptions, 'declare'>
  /** The queue is gone, or another one of its name has taken its place. */
  onGone(queue: string): void
}

/**
 * Whether a job queue is still the one that took our tokens. One that was deleted, or lost with the
 * broker's data, and that a native worker has declared before us looks as if it had been there all
 * the time. So each queue gets a marker: a durable exchange that nobody publishes to, bound to
 * the queue, and deleted by RabbitMQ with its last binding, which goes with the queue.
 */
export class QueueMarkers {
  readonly #deps: QueueMarkersDeps
  /** Set, and not recorded yet; by queue. */
  readonly #fresh = new Map<string, string>()
  /** Gone before anybody noticed: not to be tried again before somebody does. */
  readonly #unmarkable = new Set<string>()
  /** The connection on which RabbitMQ refused a marker: its other queues are not tried. */
  #refusedOn = 0

  constructor(deps: QueueMarkersDeps) {
    this.#deps = deps
  }

  /** False: the queue had a marker, and has it no more. Throws where the ledger cannot be read. */
  async isSame(scratch: ScratchChannel, queue: string): Promise<boolean> {
    const marker = this.#deps.hooks.markerOf(queue)
    return marker === null || (await this.#find(scratch, marker)) !== 'missing'
  }

  /** The queue was looked for and is not there: what was set for it is gone too. */
  forget(queue: string): void {
    this.#fresh.delete(queue)
    this.#unmarkable.delete(queue)
  }

  /**
   * Marks the queues that have no marker, and looks for the others'. A marker is recorded by the look
   * after the one that set it. Throws where the ledger cannot be read.
   */
  async look(scratch: ScratchChannel): Promise<void> {
    for (const queue of this.#deps.readyQueues()) await this.#seeTo(scratch, queue)
  }

  async #seeTo(scratch: ScratchChannel, queue: string): Promise<void> {
    const { hooks, onGone } = this.#deps
    if (hooks.markerOf(queue) === null) await this.#mark(scratch, queue)
    else if (hooks.hasTokens(queue) && !(await this.isSame(scratch, queue))) onGone(queue)
  }

  async #mark(scratch: ScratchChannel, queue: string): Promise<void> {
    const { connection, hooks, options } = this.#deps
    const fresh = this.#fresh.get(queue)
    if (fresh === undefined) {
      const isVain = this.#refusedOn === connection.generation || this.#unmarkable.has(queue)
      if (options.declare !== 'never' && !isVain) await this.#set(scratch, queue)
      return
    }
    this.#fresh.delete(queue)
    if ((await this.#find(scratch, fresh)) === 'exists') await hooks.onMarked(queue, fresh)
  }

  async #set(scratch: ScratchChannel, queue: string): Promise<void> {
    const { connection, logger, names } = this.#deps
    const marker = uuid7()
    const exchange = names.marker(marker)
    // `rabbitmqctl export_definitions` leaves internal exchanges out: a queue that is imported elsewhere
    // is another one, and empty.
    const options = { durable: true, autoDelete: true, internal: true }
    try {
      await scratch.run((channel) => channel.assertExchange(exchange, 'fanout', options))
      await scratch.run((channel) => channel.bindQueue(names.jobQueue(queue), exchange, ''))
      this.#fresh.set(queue, marker)
    } catch (error) {
      const { kind } = classify(error)
      logger.debug({ queue, reason: kind }, 'queue was not marked')
      if (kind === 'access-refused') this.#refusedOn = connection.generation
      if (kind === 'not-found') this.#unmarkable.add(queue)
      // Without a binding it would never delete itself.
      await scratch.run((channel) => channel.deleteExchange(exchange)).catch(() => {})
    }
  }

  async #find(scratch: ScratchChannel, marker: string): Promise<Presence> {
    const exchange = { entity: 'exchange' as const, name: this.#deps.names.marker(marker) }
    return (await lookFor(scratch, exchange)).presence
  }
}
