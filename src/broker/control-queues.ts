import type { ControlChannel } from './control-channel.ts'

/** What is known of the control queue of one queue. */
export interface ControlQueue {
  /** Its consumer's; null: it has none. */
  channel: ControlChannel | null
  /** It was deleted and declared anew: who consumed the old one hears nothing. */
  isRenewed: boolean
  /** Looked for in vain, which says nothing of who consumes it. */
  isUnsure: boolean
  /** The log has told that it is gone. */
  isToldMissing: boolean
}

/** The control queues that were seen to, by the queues that they are for. None is ever forgotten. */
export class ControlQueues {
  readonly #byQueue = new Map<string, ControlQueue>()
  /** Those that the user may not consume, the one that was tried last at the end. */
  readonly #denied = new Set<string>()
  readonly #onNew: (queue: string) => void

  /** `onNew`: before anything is known of it. */
  constructor(onNew: (queue: string) => void) {
    this.#onNew = onNew
  }

  names(): string[] {
    return [...this.#byQueue.keys()]
  }

  find(queue: string): ControlQueue | undefined {
    return this.#byQueue.get(queue)
  }

  /** Without a consumer when it is new. To be changed by who asks. */
  getOrCreate(queue: string): ControlQueue {
    const present = this.#byQueue.get(queue)
    if (present) return present
    this.#onNew(queue)
    const added = { channel: null, isRenewed: false, isUnsure: false, isToldMissing: false }
    this.#byQueue.set(queue, added)
    return added
  }

  /** Those whose consumer is on this channel. */
  on(channel: ControlChannel): string[] {
    return this.#those((known) => known.channel === channel)
  }

  /** The channel is gone with them. */
  closed(channel: ControlChannel): void {
    for (const known of this.#byQueue.values()) if (known.channel === channel) known.channel = null
  }

  /** Of what was seen on a connection that is gone nothing holds but that they were there. */
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

  /** The others that were denied: what is granted for one is probably granted for all. */
  allow(queue: string): string[] {
    return this.#denied.delete(queue) ? [...this.#denied] : []
  }

  /** Of those that are denied one at a time: each costs its channel, and a line of RabbitMQ's log. */
  checkable(): string[] {
    const [next] = this.#denied
    return this.names().filter((queue) => queue === next || !this.#denied.has(queue))
  }

  /** Without a consumer, or with one of which nothing is known; and it may be otherwise by now. */
  unwell(): string[] {
    const isUnwell = ({ channel, isUnsure }: ControlQueue) => channel === null || isUnsure
    return this.#those(isUnwell).filter((queue) => !this.#denied.has(queue))
  }

  #those(which: (known: ControlQueue) => boolean): string[] {
    return [...this.#byQueue].filter(([, known]) => which(known)).map(([queue]) => queue)
  }
}
