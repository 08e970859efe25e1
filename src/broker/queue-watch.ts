import type { BrokerWarning } from './broker.ts'
import { DepthSampler, type DepthSamplerDeps } from './depth-sampler.ts'
import { NewLedger, type NewLedgerDeps } from './new-ledger.ts'
import type { BrokerOptions } from './options.ts'
import { QueueMarkers, type QueueMarkersDeps } from './queue-markers.ts'
import { type ScratchChannel, withScratchChannel } from './scratch-channel.ts'

/**
 * Longer than `UNWRITTEN_MS`: a broker that is killed has written by the next look what it had
 * confirmed at this one.
 */
const EVERY_MS = 10_000

type Parts = Omit<DepthSamplerDeps, 'isSame'> & QueueMarkersDeps & NewLedgerDeps

export interface QueueWatchDeps extends Parts {
  hooks: QueueMarkersDeps['hooks'] & NewLedgerDeps['hooks']
  options: Pick<BrokerOptions, 'declare' | 'watchMs'>
  /** Is what was missing still missing? */
  lookAgain(scratch: ScratchChannel): Promise<void>
  missingExchange(scratch: ScratchChannel): Promise<string | null>
  /** And with it every binding to it. */
  onExchangeGone(): void
}

/** What becomes of the queues and exchanges while nobody tells: looks now and then. */
export class QueueWatch {
  readonly #deps: QueueWatchDeps
  readonly #markers: QueueMarkers
  readonly #sampler: DepthSampler
  readonly #newLedger: NewLedger
  #timer: NodeJS.Timeout | undefined
  #isLooking = false
  /** That was told, for as long as it is not there. */
  #missingExchange: string | null = null

  constructor(deps: QueueWatchDeps) {
    this.#deps = deps
    this.#newLedger = new NewLedger(deps)
    this.#markers = new QueueMarkers(deps)
    this.#sampler = new DepthSampler({
      ...deps,
      isSame: (scratch, queue) => this.#markers.isSame(scratch, queue),
    })
  }

  start(): void {
    const everyMs = this.#deps.options.watchMs ?? EVERY_MS
    this.#timer ??= setInterval(() => void this.#look(), everyMs)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
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
    return [...this.#newLedger.warnings(), ...this.#sampler.warnings()]
  }

  async #look(): Promise<void> {
    const { connection, logger } = this.#deps
    if (this.#isLooking || !connection.isUp) return
    this.#isLooking = true
    try {
      await withScratchChannel(connection, async (scratch) => {
        await this.#deps.lookAgain(scratch)
        await this.#lookAtExchanges(scratch)
        if (await this.#newLedger.look(scratch)) await this.#markers.look(scratch)
        await this.#sampler.look(scratch)
      })
    } catch (error) {
      // The ledger may be unreadable for a moment.
      logger.warn({ err: error }, 'the queues cannot be looked at')
    } finally {
      this.#isLooking = false
    }
  }

  /**
   * Only who publishes is told that an exchange is gone. RabbitMQ drops what it would dead-letter
   * there, or holds it back where it may not be lost, and tells nobody.
   */
  async #lookAtExchanges(scratch: ScratchChannel): Promise<void> {
    const { logger, missingExchange, onExchangeGone } = this.#deps
    const exchange = await missingExchange(scratch)
    if (exchange !== null) {
      if (exchange !== this.#missingExchange) logger.warn({ exchange }, 'an exchange is gone')
      onExchangeGone()
    }
    this.#missingExchange = exchange
  }
}
