/** Notices a restored backup, of the ledger or of RabbitMQ: their epochs differ. */
import type { Logger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import { classify } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import type { BrokerOptions, LedgerEpochs } from '../options.ts'
import { lookFor } from '../topology/entity.ts'

/** A copy of a ledger that is older than this is noticed when it is restored. */
const RENEW_MS = 300_000

export interface LedgerEpochDeps {
  connection: Connection
  names: Names
  logger: Logger
  hooks: { epochs: Pick<LedgerEpochs, 'all' | 'record'> }
  options: Pick<BrokerOptions, 'declare'>
  /** Clock time. */
  now(): number
}

/**
 * Notices that the ledger is not the one that was used with this RabbitMQ last: a backup was restored, of the
 * ledger or of RabbitMQ. Both hold the same epoch: the ledger in its file, RabbitMQ as the name of an
 * exchange that nobody uses, `ojs.system.ledger.{time}`. It is another one every few minutes. Internal, as the
 * origin is, so that no export of definitions takes it along.
 *
 * The ledger holds the epoch before as well. A new one is committed, then declared, and only then is the one
 * before deleted, so that RabbitMQ has one of the two whenever the gateway or RabbitMQ is killed.
 */
export class LedgerEpoch {
  readonly #deps: LedgerEpochDeps
  #isDecided = false
  #warning: BrokerWarning | null = null
  /** What RabbitMQ has, as far as we know; 0: nothing. */
  #current = 0
  /** The next one, which is committed, while it is not known to be declared. */
  #next: number | null = null
  /** What RabbitMQ may have besides. */
  #old: number[] = []
  #renewed = { at: 0, on: 0 }

  constructor(deps: LedgerEpochDeps) {
    this.#deps = deps
  }

  warnings(): BrokerWarning[] {
    return this.#warning ? [this.#warning] : []
  }

  /** Call before the origin is declared. False: RabbitMQ cannot be asked, and it must not be declared yet. */
  async look(scratch: ScratchChannel): Promise<boolean> {
    const { connection, logger, now, options } = this.#deps
    if (options.declare === 'never') return true
    if (!this.#isDecided && !(await this.#decide(scratch))) return false
    const { at, on } = this.#renewed
    // A RabbitMQ that has lost its data gets a new epoch before a new origin.
    if (on === connection.generation && now() - at < RENEW_MS) return true
    try {
      await this.#renew(scratch)
    } catch (error) {
      const { kind } = classify(error)
      logger.debug({ reason: kind }, 'the epoch of the ledger was not declared')
      if (kind === 'unavailable') return false
      // RabbitMQ refuses: there is nothing to compare with, also at the next start.
      await this.#deps.hooks.epochs.record(0, 0)
    }
    this.#renewed = { at: now(), on: connection.generation }
    return true
  }

  async #decide(scratch: ScratchChannel): Promise<boolean> {
    const { hooks, logger, names } = this.#deps
    const known = await hooks.epochs.all()
    const origin = known.length > 0 ? await presenceOf(scratch, names.origin) : 'missing'
    if (origin === 'unavailable') return false
    if (origin === 'exists') {
      const found = await this.#findAll(scratch, known)
      if (found === null) return false
      const [current = 0, ...old] = found
      this.#current = current
      this.#old = old
      if (current === 0) this.#warning = warningOf(Math.max(...known))
    }
    this.#isDecided = true
    if (this.#warning) logger.error({ code: this.#warning.code }, this.#warning.message)
    return true
  }

  /** Those epochs that RabbitMQ has; null: it cannot be asked. */
  async #findAll(scratch: ScratchChannel, epochs: readonly number[]): Promise<number[] | null> {
    const found: number[] = []
    for (const epoch of epochs) {
      const presence = await presenceOf(scratch, this.#deps.names.ledger(epoch))
      if (presence === 'unavailable') return null
      if (presence === 'exists') found.push(epoch)
    }
    return found
  }

  async #renew(scratch: ScratchChannel): Promise<void> {
    const { hooks, names, now } = this.#deps
    // Before the next epoch is committed, which takes the place of this one in the ledger.
    await this.#deleteOld(scratch)
    this.#next ??= Math.max(Math.floor(now()), this.#current + 1)
    await hooks.epochs.record(this.#next, this.#current)
    const exchange = names.ledger(this.#next)
    await scratch.run((channel) =>
      channel.assertExchange(exchange, 'fanout', { durable: true, internal: true }),
    )
    if (this.#current > 0) this.#old.push(this.#current)
    this.#current = this.#next
    this.#next = null
    await this.#deleteOld(scratch)
  }

  async #deleteOld(scratch: ScratchChannel): Promise<void> {
    for (const epoch of this.#old) {
      const exchange = this.#deps.names.ledger(epoch)
      await scratch.run((channel) => channel.deleteExchange(exchange))
    }
    this.#old = []
  }
}

function warningOf(epoch: number): BrokerWarning {
  const at = new Date(epoch).toISOString()
  const message =
    `This RabbitMQ was not used with this ledger last, which was in use at ${at}: an older copy of it ` +
    'or of the data of RabbitMQ was restored, or OJS_LEDGER or RabbitMQ is another one. See "An older ' +
    'ledger" in docs/operate/operations.md.'
  return { code: 'ledger_is_older', message, details: { ledger_used_at: at } }
}

async function presenceOf(scratch: ScratchChannel, exchange: string) {
  return (await lookFor(scratch, { entity: 'exchange', name: exchange })).presence
}
