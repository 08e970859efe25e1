import { ControlChannel, type ControlChannelOptions } from './control-channel.ts'

/** For all control queues together; one more for those that are doubtful. */
const CHANNELS = 4

/** The channels that the consumers of all control queues share, opened as they are needed. */
export class ControlChannels {
  readonly #options: ControlChannelOptions
  readonly #channels: (ControlChannel | undefined)[] = []
  /** With a consume that was not answered: nothing else gets through. */
  readonly #unanswered = new Set<ControlChannel>()
  #turn = 0

  constructor(options: ControlChannelOptions) {
    this.#options = options
  }

  /** Deliveries that are not settled. */
  get unsettled(): number {
    return this.#channels.reduce((sum, channel) => sum + (channel?.unsettled ?? 0), 0)
  }

  /** In turns. Doubtful queues share one of their own, which they may block or have closed. */
  next({ isDoubtful }: { isDoubtful: boolean }): ControlChannel {
    const index = isDoubtful ? CHANNELS : this.#freeIndex()
    this.#turn += 1
    const present = this.#channels[index]
    if (present !== undefined) return present
    const channel = new ControlChannel(this.#options)
    this.#channels[index] = channel
    return channel
  }

  /** It comes last as long as this is not settled. */
  avoidUntil(channel: ControlChannel, consumed: Promise<void>): void {
    this.#unanswered.add(channel)
    const forget = () => this.#unanswered.delete(channel)
    consumed.then(forget, forget)
  }

  /** False: it was none of them any more. */
  remove(closed: ControlChannel): boolean {
    const index = this.#channels.indexOf(closed)
    if (index === -1) return false
    this.#channels[index] = undefined
    return true
  }

  /** All that there are; from now on there is none. */
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
