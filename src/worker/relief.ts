import type { LiveDelivery } from '../broker/delivery.ts'
import type { SourceOptions, SourceSink } from '../sdk/source.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { Intake } from './intake.ts'

/** What has waited for a slot for so long is given back, at the latest after twice that. */
const PATIENCE_MS = 5_000

export interface ReliefDeps {
  dispatcher: Pick<Dispatcher, 'held' | 'running' | 'giveBackHeld'>
  intake: Pick<Intake, 'rest' | 'wake'>
  sink: Pick<SourceSink, 'capacity'>
  options: Pick<SourceOptions, 'queues'>
}

/**
 * A handler that goes on after its time or a cancel keeps its slot, but not its delivery: RabbitMQ sends
 * another one, which nobody else could run for as long as the handler hangs. Such a queue is left to
 * others until a slot is free.
 *
 * ✱ Not where several queues share slots that are at work: what waits is the next one to run then.
 * Given back each time, the jobs of a queue would never have their turn beside those of a busier one.
 */
export class Relief {
  readonly #deps: ReliefDeps
  #timer: NodeJS.Timeout | undefined
  /** What waited at the last review. */
  #waited: ReadonlySet<LiveDelivery> = new Set()

  constructor(deps: ReliefDeps) {
    this.#deps = deps
  }

  start(): void {
    this.#timer = setInterval(() => this.review(), PATIENCE_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  review(): void {
    this.slotFree()
    const waits = this.#isFull() ? [...this.#deps.dispatcher.held] : []
    const overdue = waits.filter((delivery) => this.#waited.has(delivery))
    this.#waited = new Set(waits)
    for (const queue of new Set(overdue.map((delivery) => delivery.queue))) void this.#leave(queue)
  }

  /** Also where the next one of another queue has taken it at once: that would go on for ever. */
  slotFree(): void {
    if (!this.#isFull()) this.#deps.intake.wake()
  }

  #isFull(): boolean {
    const { dispatcher, sink, options } = this.#deps
    return sink.capacity() === 0 && (options.queues.length === 1 || dispatcher.running().size === 0)
  }

  async #leave(queue: string): Promise<void> {
    const { dispatcher, intake } = this.#deps
    if (await intake.rest(queue)) dispatcher.giveBackHeld((delivery) => delivery.queue === queue)
  }
}
