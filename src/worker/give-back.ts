/** Gives back the deliveries that wait behind handlers which do not end. */
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import type { SourceOptions, SourceSink } from '../sdk/worker/source.ts'
import type { Intake } from './consumers.ts'
import type { Dispatcher } from './dispatcher.ts'

/** A delivery that has waited this long for a slot is given back, after twice this time at the latest. */
const PATIENCE_MS = 5_000

export interface GiveBackDeps {
  dispatcher: Pick<Dispatcher, 'held' | 'running' | 'giveBackHeld'>
  intake: Pick<Intake, 'rest' | 'wake'>
  sink: Pick<SourceSink, 'capacity'>
  options: Pick<SourceOptions, 'queues'>
}

/**
 * Gives deliveries back that hanging handlers block. A handler that goes on after its timeout or a cancel
 * keeps its slot, but not its delivery. RabbitMQ sends another delivery in its place, which no other worker
 * could run for as long as the handler hangs. So this worker leaves the queue to others until a slot is free.
 *
 * Not if several queues share the slots and jobs run in them: then a waiting delivery is the next to run. If
 * it were given back each time, a queue beside a busier one would never get its turn.
 */
export class GiveBack {
  readonly #deps: GiveBackDeps
  #timer: NodeJS.Timeout | undefined
  /** The deliveries that waited at the last review. */
  #waited: ReadonlySet<LiveDelivery> = new Set()

  constructor(deps: GiveBackDeps) {
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

  /**
   * Consumes resting queues again once they need not rest. That may be while no slot is free: if a delivery
   * of another queue took the slot each time, a resting queue would never be consumed again.
   */
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
