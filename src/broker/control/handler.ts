/** Control messages, from delivery to acknowledgement; `control/` decides what they do. */
import type { ConsumeMessage } from 'amqplib'
import type { Clock } from '../../clock.ts'
import type { Logger } from '../../logger.ts'
import type { ControlMessage, ControlVerdict } from '../broker.ts'
import { pauseBeforeAgain } from '../connection/reconnect.ts'
import { isReplyAddress } from '../messages/control-message.ts'
import type { BrokerObserver } from '../observer.ts'
import type { ControlChannel } from './channel.ts'
import { ControlTurns, costOf, LARGE } from './turns.ts'

/** Label of counters and gauges, for all control queues; OJS queue names never begin with `ojs.`. */
export const CONTROL_LABEL = 'ojs.queue.control'

/** Type of the messages that report on jobs run by native workers. */
const REPORT = 'ojs.control.report'
/** Messages that could not be handled are logged no more often than this, all together. */
const COMPLAIN_MS = 10_000

export interface ControlHandlerDeps {
  clock: Clock
  logger: Logger
  observer: BrokerObserver
  onControl(message: ControlMessage): Promise<ControlVerdict>
  /** A message of this queue has been settled for good. */
  onSettled(queue: string): void
  /** Aborted: messages that could not be handled are given back without a pause. */
  stopping: AbortSignal
}

/**
 * Handles messages of control queues and settles them. Handling begins in the order of each queue, without
 * waiting for earlier messages but for their turn (`ControlTurns`): a message is settled when its own hook has
 * settled.
 */
export class ControlHandler {
  readonly #deps: ControlHandlerDeps
  /** The messages being handled, each with its queue and type. */
  readonly #handling = new Map<Promise<void>, { queue: string; type: unknown }>()
  readonly #turns: ControlTurns
  #complainedAt = Number.NEGATIVE_INFINITY

  constructor(deps: ControlHandlerDeps) {
    this.#deps = deps
    this.#turns = new ControlTurns(deps.clock)
    deps.stopping.addEventListener('abort', () => this.#turns.dropWaiting(), { once: true })
  }

  take(channel: ControlChannel, queue: string, message: ConsumeMessage): void {
    const { type } = message.properties
    const cost = costOf(type, message.content.length)
    const logBug = (error: unknown) =>
      this.#deps.logger.error(
        { err: error, queue },
        'bug: error after a control message was settled',
      )
    const turn = new Promise<void>((resolve) => {
      const begin = () => {
        const handled = this.#handle(channel, queue, message).catch(logBug)
        resolve(handled)
        return handled
      }
      this.#turns.take(queue, cost, { begin, drop: resolve })
    })
    const handling = turn.finally(() => this.#handling.delete(handling))
    this.#handling.set(handling, { queue, type })
  }

  /** Resolves when the reports of this queue that have arrived are settled. */
  async reportsOf(queue: string): Promise<void> {
    // Reports only: a `sync` itself waits for this queue, so that waiting for it would be a deadlock.
    const reports = [...this.#handling].filter(
      ([, message]) => message.queue === queue && message.type === REPORT,
    )
    await Promise.all(reports.map(([handling]) => handling))
  }

  /** Resolves when no message is being handled. */
  async finished(): Promise<void> {
    while (this.#handling.size > 0) await Promise.all(this.#handling.keys())
  }

  /** Calls the hook in the same turn in which the message came: that keeps the order. */
  async #handle(channel: ControlChannel, queue: string, message: ConsumeMessage): Promise<void> {
    const { observer, onControl, onSettled, stopping } = this.#deps
    // It waited too long for its turn: RabbitMQ delivers it again, before newer ones.
    if (channel.isClosed) return
    let verdict: ControlVerdict
    // Only the hook is inside the `try`: an error after the settlement must not settle again.
    try {
      verdict = await onControl(controlMessageOf(queue, message))
    } catch (error) {
      this.#complain(queue, error)
      await pauseBeforeAgain(stopping)
      if (channel.settle(message, 'requeue')) observer.givenBack(CONTROL_LABEL, 1)
      return
    }
    if (!channel.settle(message, verdict === 'handled' ? 'ack' : 'dead-letter')) return
    onSettled(queue)
    if (verdict === 'handled') observer.acked(CONTROL_LABEL)
    else observer.deadLettered(CONTROL_LABEL)
  }

  #complain(queue: string, error: unknown): void {
    const { clock, logger } = this.#deps
    if (clock.now() - this.#complainedAt < COMPLAIN_MS) return
    this.#complainedAt = clock.now()
    logger.warn(
      { err: error, queue },
      'control messages could not be handled; RabbitMQ delivers them again',
    )
  }
}

function controlMessageOf(
  queue: string,
  { content, fields, properties }: ConsumeMessage,
): ControlMessage {
  const { type, replyTo, correlationId } = properties
  return {
    queue,
    type: typeof type === 'string' ? type : '',
    content,
    redelivered: fields.redelivered,
    isLarge: costOf(type, content.length) >= LARGE,
    replyTo: typeof replyTo === 'string' && isReplyAddress(replyTo) ? replyTo : null,
    correlationId: typeof correlationId === 'string' ? correlationId : null,
  }
}
