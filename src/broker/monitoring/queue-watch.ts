/** The regular look at queues and exchanges, for changes that RabbitMQ does not report. */
import type { BrokerWarning } from '../broker.ts'
import { type ScratchChannel, withScratchChannel } from '../connection/temporary-channel.ts'
import type { BrokerOptions } from '../options.ts'
import { lookFor } from '../topology/entity.ts'
import type { Topology } from '../topology/topology.ts'
import { DepthSampler, type DepthSamplerDeps } from './depth-sampler.ts'
import { DriftWatch, type DriftWatchDeps } from './drift-watch.ts'
import { EmptyLedgerCheck, type EmptyLedgerCheckDeps } from './empty-ledger-check.ts'
import { LedgerEpoch, type LedgerEpochDeps } from './ledger-epoch.ts'
import { QueueIdentities, type QueueIdentitiesDeps } from './queue-identity.ts'

/**
 * Longer than `UNWRITTEN_MS`: what RabbitMQ confirmed at one look is written by the next, even if it is
 * killed after that.
 */
const EVERY_MS = 10_000

type Parts = Omit<DepthSamplerDeps, 'isSame' | 'drift'> &
  QueueIdentitiesDeps &
  EmptyLedgerCheckDeps &
  LedgerEpochDeps &
  DriftWatchDeps

export interface QueueWatchDeps extends Parts {
  hooks: QueueIdentitiesDeps['hooks'] &
    EmptyLedgerCheckDeps['hooks'] &
    LedgerEpochDeps['hooks'] &
    DriftWatchDeps['hooks']
  options: Pick<BrokerOptions, 'declare' | 'watchMs'>
  /** Checks whether entities that were missing are still missing. */
  lookAgain(scratch: ScratchChannel): Promise<void>
  topology: Topology
  /** The exchange is gone, and with it every binding to it. */
  onExchangeGone(): void
}

/** Checks the queues and exchanges now and then, for changes that RabbitMQ does not report. */
export class QueueWatch {
  readonly #deps: QueueWatchDeps
  readonly #identities: QueueIdentities
  readonly #sampler: DepthSampler
  readonly #newLedger: EmptyLedgerCheck
  readonly #drift: DriftWatch
  readonly #epoch: LedgerEpoch
  #timer: NodeJS.Timeout | undefined
  #isLooking = false
  /** The missing exchange that was logged last, while it is missing. */
  #missingExchange: string | null = null

  constructor(deps: QueueWatchDeps) {
    this.#deps = deps
    this.#newLedger = new EmptyLedgerCheck(deps)
    this.#epoch = new LedgerEpoch(deps)
    this.#identities = new QueueIdentities(deps)
    this.#drift = new DriftWatch(deps)
    this.#sampler = new DepthSampler({
      ...deps,
      drift: this.#drift,
      isSame: (scratch, queue) => this.#identities.isSame(scratch, queue),
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
    return this.#identities.isSame(scratch, queue)
  }

  /** The queue was looked for and does not exist. */
  forget(queue: string): void {
    this.#identities.forget(queue)
    this.#drift.forget(queue)
    this.#sampler.noteMissing(queue)
  }

  /** Jobs without a job message, according to a recent enough sample; else 0. */
  missing(queue: string): number {
    return this.#sampler.missing(queue)
  }

  /** See `DriftWatch`. */
  driftedBefore(queue: string): number | null {
    return this.#drift.driftedBefore(queue)
  }

  warnings(): BrokerWarning[] {
    const parts = [this.#newLedger, this.#epoch, this.#sampler, this.#drift]
    return parts.flatMap((part) => part.warnings())
  }

  async #look(): Promise<void> {
    const { connection, logger } = this.#deps
    if (this.#isLooking || !connection.isUp) return
    this.#isLooking = true
    try {
      await withScratchChannel(connection, async (scratch) => {
        await this.#deps.lookAgain(scratch)
        await this.#lookAtExchanges(scratch)
        const isOriginSeen = await this.#newLedger.look(scratch)
        if (isOriginSeen && (await this.#epoch.look(scratch))) await this.#identities.look(scratch)
        await this.#sampler.look(scratch)
      })
    } catch (error) {
      // The ledger may be unreadable for a moment.
      logger.warn({ err: error }, 'queues cannot be checked')
    } finally {
      this.#isLooking = false
    }
  }

  /**
   * RabbitMQ reports a missing exchange to publishers only. Messages that it would dead-letter there it
   * drops, or holds back when they must not be lost, without telling anyone.
   */
  async #lookAtExchanges(scratch: ScratchChannel): Promise<void> {
    const { logger, onExchangeGone } = this.#deps
    const exchange = await this.#findMissingExchange(scratch)
    if (exchange !== null) {
      if (exchange !== this.#missingExchange) logger.warn({ exchange }, 'an exchange is gone')
      onExchangeGone()
    }
    this.#missingExchange = exchange
  }

  /** The first one; null while all exist, or when that is unknown. */
  async #findMissingExchange(scratch: ScratchChannel): Promise<string | null> {
    const { connection, topology } = this.#deps
    for (const entity of topology.base(connection.serverVersion)) {
      if (entity.entity !== 'exchange') continue
      const { presence } = await lookFor(scratch, entity)
      if (presence === 'missing') return entity.name
    }
    return null
  }
}
