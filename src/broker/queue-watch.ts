import type { BrokerWarning } from './broker.ts'
import { DepthSampler, type DepthSamplerDeps } from './depth-sampler.ts'
import type { BrokerOptions } from './options.ts'
import { QueueMarkers, type QueueMarkersDeps } from './queue-markers.ts'
import type { ScratchChannel } from './scratch-channel.ts'

/** A broker that is killed has written by the next look what it had confirmed at this one. */
const EVERY_MS = 10_000

export interface QueueWatchDeps extends Omit<DepthSamplerDeps, 'isSame'>, QueueMarkersDeps {
  options: Pick<BrokerOptions, 'declare' | 'watchMs'>
}

/** What becomes of the queues while nobody tells: looks now and then. */
export class QueueWatch {
  readonly #everyMs: number
  readonly #markers: QueueMarkers
  readonly #sampler: DepthSampler

  constructor(deps: QueueWatchDeps) {
    this.#everyMs = deps.options.watchMs ?? EVERY_MS
    this.#markers = new QueueMarkers(deps)
    this.#sampler = new DepthSampler({
      ...deps,
      isSame: (scratch, queue) => this.#markers.isSame(scratch, queue),
    })
  }

  start(): void {
    this.#markers.start(this.#everyMs)
    this.#sampler.start(this.#everyMs)
  }

  stop(): void {
    this.#markers.stop()
    this.#sampler.stop()
  }

  isSame(scratch: ScratchChannel, queue: string): Promise<boolean> {
    return this.#markers.isSame(scratch, queue)
  }

  /** The queue was looked for and is not there. */
  forget(queue: string): void {
    this.#markers.forget(queue)
  }

  /** Jobs without a token according to a sample that is recent enough; else 0. */
  missing(queue: string): number {
    return this.#sampler.missing(queue)
  }

  warnings(): BrokerWarning[] {
    return this.#sampler.warnings()
  }
}
