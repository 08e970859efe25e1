/** May a PUSH be accepted now? The conditions of RabbitMQ and its connections, as one status. */
import type { BrokerStatus } from './broker.ts'
import { channelWarnings } from './connection/channel-limit.ts'
import type { Connection } from './connection/connection.ts'
import type { Names } from './names.ts'
import type { OwnerState } from './topology/ownership.ts'

const UP: BrokerStatus = { state: 'up' }

export interface AvailabilityDeps {
  connections: Readonly<Record<'publish' | 'consume' | 'declare', Connection>>
  names: Names
  /** True when every publish channel is open; a change is announced by `notice`. */
  isPublisherOpen(): boolean
  owner(): { readonly state: OwnerState; readonly problem: string | null }
  /** Publishing has become possible (again). */
  onUp(): void
}

/** Decides whether jobs can be published, from all the conditions for that. */
export class Availability {
  readonly #deps: AvailabilityDeps
  readonly #connections: readonly Connection[]
  #isBaseReady = false
  /**
   * Generation of the publish connection during which the exchanges and system queues were last ensured.
   * RabbitMQ has not restarted while that connection lasts, so jobs go on when only the declare connection is
   * lost: RabbitMQ ends that one for a single declare that fails internally (541).
   */
  #baseOn = 0
  /**
   * Generation of the publish connection on which every channel was open. RabbitMQ may close a single
   * channel, and reopening it may take up to a minute if that repeats. Meanwhile only the publishes of that
   * channel wait: the broker stays `up`.
   */
  #openOn = 0
  #wasUp = false
  #isStopped = false
  #onSettled: (() => void) | null = null

  constructor(deps: AvailabilityDeps) {
    this.#deps = deps
    this.#connections = Object.values(deps.connections)
    const notice = () => this.notice()
    deps.connections.publish.listen({ down: notice, blocked: notice, unblocked: notice })
    deps.connections.consume.listen({ down: notice })
  }

  /** As of the last `notice`. */
  get isUp(): boolean {
    return this.#wasUp
  }

  /** True when exchanges and system queues were ensured on the present declare connection. */
  get isBaseReady(): boolean {
    return this.#isBaseReady
  }

  baseChanged(isReady: boolean): void {
    this.#isBaseReady = isReady
    this.notice()
  }

  stop(): void {
    this.#isStopped = true
    this.notice()
  }

  status(): BrokerStatus {
    if (this.#wasUp) return UP
    if (this.#isStopped) return { state: 'down', reason: 'stopped' }
    for (const connection of this.#connections) {
      if (!connection.isUp) return { state: 'down', reason: connection.downReason }
    }
    const { state: ownerState, problem } = this.#deps.owner()
    const { blockedReason } = this.#deps.connections.publish
    if (ownerState === 'foreign') {
      return { state: 'foreign', reason: `${this.#deps.names.owner} belongs to another gateway` }
    }
    if (ownerState === 'owner' && blockedReason !== null) {
      return { state: 'blocked', reason: blockedReason }
    }
    const [lacking] = channelWarnings(this.#connections)
    return { state: 'down', reason: problem ?? lacking?.message ?? 'connecting' }
  }

  /** To be called after every change of a condition for publishing. */
  notice(): void {
    const { publish, consume } = this.#deps.connections
    if (this.#deps.isPublisherOpen()) this.#openOn = publish.generation
    if (this.#isBaseReady) this.#baseOn = publish.generation
    const isUp =
      !this.#isStopped &&
      publish.isUp &&
      consume.isUp &&
      this.#openOn === publish.generation &&
      this.#baseOn === publish.generation &&
      this.#deps.owner().state === 'owner' &&
      publish.blockedReason === null
    const isNews = isUp && !this.#wasUp
    this.#wasUp = isUp
    if (this.#isSettled) this.#onSettled?.()
    if (isNews) this.#deps.onUp()
  }

  /** Resolves when the broker is up, or is not for a reason that only time or an operator can change. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isSettled) resolve()
      else this.#onSettled = resolve
    })
  }

  get #isSettled(): boolean {
    return this.status().state !== 'down' || this.#deps.owner().problem !== null
  }
}
