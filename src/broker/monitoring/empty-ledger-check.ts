/** Warns about an empty ledger beside a RabbitMQ that gateways have used before. */
import type { Logger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import type { LedgerEpochs } from '../options.ts'
import { lookFor } from '../topology/entity.ts'

export interface EmptyLedgerCheckDeps {
  names: Names
  logger: Logger
  hooks: { epochs: Pick<LedgerEpochs, 'isLedgerNew'> }
}

/**
 * Warns about an empty ledger beside a RabbitMQ that gateways have used before: the ledger's path is wrong,
 * or the file is lost. Jobs in the queues are adopted as they are fetched, so that everything looks well, and
 * nobody would miss the jobs that only the other ledger holds before they are due. The warning lasts until
 * the next start, when this ledger is no longer new.
 */
export class EmptyLedgerCheck {
  readonly #deps: EmptyLedgerCheckDeps
  #isDecided = false
  #warning: BrokerWarning | null = null

  constructor(deps: EmptyLedgerCheckDeps) {
    this.#deps = deps
  }

  warnings(): BrokerWarning[] {
    return this.#warning ? [this.#warning] : []
  }

  /**
   * Looks once, before we declare the origin ourselves: the origin exists if a gateway has marked queues.
   * False: RabbitMQ cannot be asked, and the origin must not be declared yet.
   */
  async look(scratch: ScratchChannel): Promise<boolean> {
    const { hooks, logger, names } = this.#deps
    if (this.#isDecided) return true
    if (hooks.epochs.isLedgerNew()) {
      const { presence } = await lookFor(scratch, { entity: 'exchange', name: names.origin })
      if (presence === 'unavailable') return false
      if (presence === 'exists') this.#warning = warningOf(names.origin)
    }
    this.#isDecided = true
    if (this.#warning) logger.warn({ code: this.#warning.code }, this.#warning.message)
    return true
  }
}

function warningOf(entity: string): BrokerWarning {
  const message =
    'The ledger is new, but this RabbitMQ has been used with another ledger: schedules, retries, ' +
    'cron entries, workflows and pauses that only the other ledger holds are missing. If you still ' +
    'have the file of the other ledger, stop the gateway, and start it with that file (OJS_LEDGER).'
  return { code: 'ledger_is_new', message, details: { entity } }
}
