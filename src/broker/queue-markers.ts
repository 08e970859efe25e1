import type { Logger } from '../logger.ts'
import { uuid7 } from '../uuid.ts'
import { classify } from './amqp-error.ts'
import type { Presence } from './broker.ts'
import type { Connection } from './connection.ts'
import { lookFor } from './entity.ts'
import type { Names } from './names.ts'
import type { BrokerHooks, BrokerOptions } from './options.ts'
import type { ScratchChannel } from './scratch-channel.ts'

/** Markers that definitions have in them. Those of an earlier build were internal, and had another form. */
const EXPORTED = 'q-'

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
 *
 * A queue that is made from exported definitions is another one too, and empty, but has its marker.
 * What has none is the origin, an internal exchange, which RabbitMQ leaves out of an export. It leaves
 * out no binding, and from 4.3 on refuses to import one of an exchange that is not there: so a marker
 * may not be internal itself.
 */
export class QueueMarkers {
  readonly #deps: QueueMarkersDeps
  /** Set, and not recorded yet; by queue. */
  readonly #fresh = new Map<string, string>()
  /** Gone before they had a marker: not to be tried again before somebody has looked for them. */
  readonly #unmarkable = new Set<string>()
  /** The connection on which RabbitMQ refused a marker: its other queues are not tried. */
  #refusedOn = 0
  /** The connection on which the origin was looked for, and whether it was missing. */
  #origin = { on: 0, isMissing: false }
  /** Markers that were set since. */
  readonly #own = new Set<string>()

  constructor(deps: QueueMarkersDeps) {
    this.#deps = deps
  }

  /** False: the queue had a marker, and has it no more. Throws where the ledger cannot be read. */
  async isSame(scratch: ScratchChannel, queue: string): Promise<boolean> {
    const marker = this.#deps.hooks.markerOf(queue)
    if (marker === null) return true
    if ((await this.#find(scratch, marker)) === 'missing') return false
    if (!isExported(marker)) return true
    return !(await this.#areImported(scratch)) || this.#own.has(marker)
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
    const marker = hooks.markerOf(queue)
    if (marker !== null && hooks.hasTokens(queue) && !(await this.isSame(scratch, queue))) {
      onGone(queue)
    } else if (marker === null || !isExported(marker)) await this.#mark(scratch, queue, marker)
  }

  /** `old`: of an earlier build, which the new one replaces. */
  async #mark(scratch: ScratchChannel, queue: string, old: string | null): Promise<void> {
    const { connection, hooks, options } = this.#deps
    const fresh = this.#fresh.get(queue)
    if (fresh === undefined) {
      const isVain = this.#refusedOn === connection.generation || this.#unmarkable.has(queue)
      if (options.declare !== 'never' && !isVain) await this.#set(scratch, queue)
      return
    }
    this.#fresh.delete(queue)
    if ((await this.#find(scratch, fresh)) !== 'exists') return
    await hooks.onMarked(queue, fresh)
    if (old !== null) await this.#delete(scratch, old)
  }

  async #set(scratch: ScratchChannel, queue: string): Promise<void> {
    const { connection, hooks, logger, names, onGone } = this.#deps
    const marker = EXPORTED + uuid7()
    const exchange = names.marker(marker)
    // Before it is there: whether the markers of others are imported shall not depend on who comes first.
    await this.#areImported(scratch)
    const declare = (name: string, options: object) =>
      scratch.run((channel) => channel.assertExchange(name, 'fanout', options))
    try {
      await declare(names.origin, { durable: true, internal: true })
      await declare(exchange, { durable: true, autoDelete: true })
      await scratch.run((channel) => channel.bindQueue(names.jobQueue(queue), exchange, ''))
      this.#fresh.set(queue, marker)
      this.#own.add(marker)
    } catch (error) {
      const { kind } = classify(error)
      logger.debug({ queue, reason: kind }, 'queue was not marked')
      if (kind === 'access-refused') this.#refusedOn = connection.generation
      if (kind === 'not-found') this.#unmarkable.add(queue)
      // Without a binding it would never delete itself.
      await this.#delete(scratch, marker)
      if (kind === 'not-found' && hooks.hasTokens(queue)) onGone(queue)
    }
  }

  /** Were the markers that there are made from definitions? As it was when this connection was new. */
  async #areImported(scratch: ScratchChannel): Promise<boolean> {
    const { connection, names } = this.#deps
    const { generation } = connection
    if (this.#origin.on !== generation) {
      const { presence } = await lookFor(scratch, { entity: 'exchange', name: names.origin })
      if (presence === 'unavailable' || generation !== connection.generation) return false
      // Somebody else may have looked meanwhile, and have declared it since.
      if (this.#origin.on !== generation) {
        this.#origin = { on: generation, isMissing: presence === 'missing' }
        this.#own.clear()
      }
    }
    return this.#origin.isMissing
  }

  async #delete(scratch: ScratchChannel, marker: string): Promise<void> {
    const exchange = this.#deps.names.marker(marker)
    await scratch.run((channel) => channel.deleteExchange(exchange)).catch(() => {})
  }

  async #find(scratch: ScratchChannel, marker: string): Promise<Presence> {
    const exchange = { entity: 'exchange' as const, name: this.#deps.names.marker(marker) }
    return (await lookFor(scratch, exchange)).presence
  }
}

function isExported(marker: string): boolean {
  return marker.startsWith(EXPORTED)
}
