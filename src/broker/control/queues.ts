/** The known control queues and the state of each. */
import type { ControlChannel } from './channel.ts'

/** State of one queue's control queue. */
export interface ControlQueue {
  /** The channel of its consumer; null: it has none. */
  channel: ControlChannel | null
  /** The control queue was deleted and declared anew: a consumer of the old one receives nothing. */
  isRenewed: boolean
  /** The last check failed, which says nothing about an existing consumer. */
  isUnsure: boolean
  /** Its absence has been logged. */
  isToldMissing: boolean
}

/** The known control queues, by OJS queue. */
export class ControlQueues {
  readonly #byQueue = new Map<string, ControlQueue>()
  /** Queues whose control queue the user may not consume; the one tried last is at the end. */
  readonly #denied = new Set<string>()
  readonly #onNew: (queue: string) => void

  /** `onNew`: called before the queue's state is created. */
  constructor(onNew: (queue: string) => void) {
    this.#onNew = onNew
  }

  names(): string[] {
    return [...this.#byQueue.keys()]
  }

  find(queue: string): ControlQueue | undefined {
    return this.#byQueue.get(queue)
  }

  /** A new entry has no consumer. The caller may change the returned state. */
  getOrCreate(queue: string): ControlQueue {
    const present = this.#byQueue.get(queue)
    if (present) return present
    this.#onNew(queue)
    const added = { channel: null, isRenewed: false, isUnsure: false, isToldMissing: false }
    this.#byQueue.set(queue, added)
    return added
  }

  forget(queue: string): void {
    this.#byQueue.delete(queue)
    this.#denied.delete(queue)
  }

  /** The queues whose consumer is on this channel. */
  on(channel: ControlChannel): string[] {
    return this.#queuesWhere((known) => known.channel === channel)
  }

  /** The channel is gone, and its consumers with it. */
  closed(channel: ControlChannel): void {
    for (const known of this.#byQueue.values()) if (known.channel === channel) known.channel = null
  }

  /** The connection is gone: forget everything but the names. */
  disconnected(): void {
    this.#denied.clear()
    for (const known of this.#byQueue.values()) {
      known.channel = null
      known.isUnsure = false
    }
  }

  deny(queue: string): void {
    this.#denied.delete(queue)
    this.#denied.add(queue)
  }

  isDenied(queue: string): boolean {
    return this.#denied.has(queue)
  }

  /** Returns the other denied queues: a right granted for one is probably granted for all. */
  allow(queue: string): string[] {
    return this.#denied.delete(queue) ? [...this.#denied] : []
  }

  /** All queues, but only one denied queue at a time: each costs its channel and a line in RabbitMQ's log. */
  checkable(): string[] {
    const [next] = this.#denied
    return this.names().filter((queue) => queue === next || !this.#denied.has(queue))
  }

  /** The queues that have no consumer, or whose last check failed, unless they are denied. */
  unwell(): string[] {
    const isUnwell = ({ channel, isUnsure }: ControlQueue) => channel === null || isUnsure
    return this.#queuesWhere(isUnwell).filter((queue) => !this.#denied.has(queue))
  }

  #queuesWhere(matches: (known: ControlQueue) => boolean): string[] {
    return [...this.#byQueue].filter(([, known]) => matches(known)).map(([queue]) => queue)
  }
}
