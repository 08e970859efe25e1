import type { Logger } from '../logger.ts'
import type { BrokerWarning } from './broker.ts'
import { lookFor } from './entity.ts'
import type { Names } from './names.ts'
import type { BrokerHooks } from './options.ts'
import type { ScratchChannel } from './scratch-channel.ts'

export interface NewLedgerDeps {
  names: Names
  logger: Logger
  hooks: Pick<BrokerHooks, 'isLedgerNew'>
}

/**
 * A ledger that begins empty beside a RabbitMQ in which gateways have been at work: its path is wrong, or
 * the file is lost. Jobs in the queues are adopted as they are taken, so that all looks well; what only
 * the other ledger holds nobody would miss before its time has come. A warning until the next start,
 * when this ledger is not new any more.
 */
export class NewLedger {
  readonly #deps: NewLedgerDeps
  #isDecided = false
  #warning: BrokerWarning | null = null

  constructor(deps: NewLedgerDeps) {
    this.#deps = deps
  }

  warnings(): BrokerWarning[] {
    return this.#warning ? [this.#warning] : []
  }

  /**
   * Once, and before we declare the origin ourselves: it is there where queues have been marked. False:
   * RabbitMQ cannot be asked, and nobody may declare it yet.
   */
  async look(scratch: ScratchChannel): Promise<boolean> {
    const { hooks, logger, names } = this.#deps
    if (this.#isDecided) return true
    if (hooks.isLedgerNew()) {
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
    'The ledger is new, and this RabbitMQ has been used with another one: schedules, retries, cron ' +
    'entries, workflows and pauses that only that one holds are not here. If it is not lost, stop ' +
    'the gateway, and start it with that file (OJS_LEDGER).'
  return { code: 'ledger_is_new', message, details: { entity } }
}
