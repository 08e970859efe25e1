import { ControlChannel, type ControlChannelOptions } from './channel.ts'

/** Number of channels for all control queues together; doubtful queues get one more. */
const CHANNELS = 4

/** The channels that the consumers of all control queues share; opened on demand. */
export class ControlChannels {
  readonly #options: ControlChannelOptions
  readonly #channels: (ControlChannel | undefined)[] = []
  /** Channels with an unanswered consume: nothing else gets through them. */
  readonly #unanswered = new Set<ControlChannel>()
  #turn = 0

  constructor(options: ControlChannelOptions) {
    this.#options = options
  }

  /** Number of unsettled deliveries. */
  get unsettled(): number {
    return this.#channels.reduce((sum, channel) => sum + (channel?.unsettled ?? 0), 0)
  }

  /** Takes turns. Doubtful queues share a channel of their own, which they may block or have closed. */
  next({ isDoubtful }: { isDoubtful: boolean }): ControlChannel {
    const index = isDoubtful ? CHANNELS : this.#freeIndex()
    this.#turn += 1
    const present = this.#channels[index]
    if (present !== undefined) return present
    const channel = new ControlChannel(this.#options)
    this.#channels[index] = channel
    return channel
  }

  /** Uses this channel last until `consumed` settles. */
  avoidUntil(channel: ControlChannel, consumed: Promise<void>): void {
    this.#unanswered.add(channel)
    const forget = () => this.#unanswered.delete(channel)
    consumed.then(forget, forget)
  }

  /** False: the channel was no longer in use. */
  remove(closed: ControlChannel): boolean {
    const index = this.#channels.indexOf(closed)
    if (index === -1) return false
    this.#channels[index] = undefined
    return true
  }

  /** Returns all channels in use and forgets them. */
  takeAll(): ControlChannel[] {
    this.#unanswered.clear()
    return this.#channels.splice(0).filter((channel) => channel !== undefined)
  }

  #freeIndex(): number {
    const inTurn = Array.from({ length: CHANNELS }, (_, i) => (this.#turn + i) % CHANNELS)
    const isFree = (index: number) => {
      const present = this.#channels[index]
      return present === undefined || !this.#unanswered.has(present)
    }
    return inTurn.find(isFree) ?? this.#turn % CHANNELS
  }
}
