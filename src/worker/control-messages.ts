/** What gateways tell a worker: cancels, pauses, to be quiet, to end. */
import { type BroadcastMessage, listenToBroadcasts } from '../broker/control/broadcast-queue.ts'
import { workersKey } from '../broker/messages/control-message.ts'
import { membersOf } from '../job/values/json-value.ts'
import type { SourceOptions, SourceSink } from '../sdk/worker/source.ts'
import type { ClaimedQueues } from './claimed-queues.ts'
import type { AmqpLink } from './connection.ts'
import type { Intake } from './consumers.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { GatewayRpc, Synced } from './gateway-rpc.ts'

export interface ControlOrdersDeps {
  link: AmqpLink
  gateway: GatewayRpc
  dispatcher: Dispatcher
  intake: Intake
  claimedQueues: ClaimedQueues
  sink: SourceSink
  options: SourceOptions
}

/**
 * What gateways tell a worker (docs/architecture.md §5): which jobs are cancelled, which queues are paused,
 * and whether the worker must be quiet or end. It arrives by broadcast; the answer to a `sync` contains what
 * was broadcast before the worker listened.
 */
export class ControlOrders {
  readonly #deps: ControlOrdersDeps
  #close: () => Promise<void> = async () => undefined
  /** No gateway has answered since the last (re)connect, so the worker may have missed orders. */
  #isUnanswered = false
  /** Queues that were paused or resumed by broadcast while an answer to `sync` was under way. */
  readonly #changedByBroadcast = new Set<string>()

  constructor(deps: ControlOrdersDeps) {
    this.#deps = deps
  }

  /**
   * Listens to broadcasts; called again after each (re)connect. Resolves when no broadcast can be missed any
   * more, rejects if there is no connection or no exchange. `onClosed`: no broadcast arrives any more.
   */
  async listen(onClosed: () => void): Promise<void> {
    const { link, options } = this.#deps
    const keys = options.queues.map(workersKey)
    const source = { exchange: link.names.exchange.direct, keys }
    const onMessage = (message: BroadcastMessage) => this.#onBroadcast(message)
    const { close } = await listenToBroadcasts(link.consume, source, { onMessage, onClosed })
    this.#close = close
  }

  /** Asks for what was broadcast before `listen`. Without an answer the worker goes on as it is. */
  async catchUp(): Promise<void> {
    const { gateway, options } = this.#deps
    this.#changedByBroadcast.clear()
    this.#isUnanswered = false
    const synced = await gateway.sync(options.queues)
    this.#isUnanswered = synced === null
    if (synced) this.#apply(synced)
  }

  /** Asks again if no gateway has answered and one might by now. */
  catchUpIfUnanswered(): void {
    if (this.#isUnanswered && !this.#deps.gateway.isSilent) void this.catchUp()
  }

  async close(): Promise<void> {
    await this.#close()
  }

  #apply(synced: Synced): void {
    const { dispatcher, claimedQueues, options, sink } = this.#deps
    for (const [id, generation] of synced.tombstones) dispatcher.cancel(id, generation)
    if (synced.truncated) for (const queue of options.queues) claimedQueues.add(queue)
    // A broadcast that arrived while the answer was under way is newer than the answer.
    for (const queue of options.queues.filter((name) => !this.#changedByBroadcast.has(name))) {
      void (synced.paused.includes(queue) ? this.#pause(queue) : this.#resume(queue))
    }
    if (synced.directive !== 'running') sink.directive(synced.directive)
  }

  #onBroadcast({ type, body }: BroadcastMessage): void {
    const members = membersOf(body)
    if (type === 'ojs.control.cancel') this.#cancel(members)
    else if (type === 'ojs.control.directive') this.#direct(members)
    else if (type === 'ojs.control.pause') void this.#pause(members['queue'])
    else if (type === 'ojs.control.resume') void this.#resume(members['queue'])
    else this.#deps.link.logger.debug({ type }, 'broadcast of an unknown type')
  }

  #cancel({ job_id: id, generation }: Record<string, unknown>): void {
    if (typeof id !== 'string') return
    this.#deps.dispatcher.cancel(id, typeof generation === 'number' ? generation : undefined)
  }

  #direct({ worker_id: workerId, state }: Record<string, unknown>): void {
    const { options, sink } = this.#deps
    const isForUs = workerId === undefined || workerId === null || workerId === options.workerId
    if (isForUs && (state === 'quiet' || state === 'terminate')) sink.directive(state)
  }

  async #pause(queue: unknown): Promise<void> {
    if (!this.#isOurs(queue)) return
    this.#changedByBroadcast.add(queue)
    // If the queue was resumed meanwhile, the new consumer is to have the deliveries.
    if (await this.#deps.intake.pause(queue)) this.#deps.dispatcher.giveBack(queue)
  }

  async #resume(queue: unknown): Promise<void> {
    if (!this.#isOurs(queue)) return
    this.#changedByBroadcast.add(queue)
    await this.#deps.intake.resume(queue)
  }

  /** Any client may publish anything to the exchange. */
  #isOurs(queue: unknown): queue is string {
    return typeof queue === 'string' && this.#deps.options.queues.includes(queue)
  }
}
