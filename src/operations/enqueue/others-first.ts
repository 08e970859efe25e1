import { unavailable } from '../../errors.ts'
import type { Deps } from '../deps.ts'

/** Of the time that a confirm may take. */
const PATIENCE = 1 / 2

/**
 * For a request that has to wait until others with its key are decided. Where RabbitMQ stalls, each of
 * them takes the whole time that a confirm may take, and they would wait one behind another; so nobody
 * begins to wait again who has waited for long. Made with the first wait.
 */
export class OthersFirst {
  readonly #deps: Pick<Deps, 'clock'>
  readonly #until: number

  constructor(deps: Pick<Deps, 'clock' | 'settings'>) {
    this.#deps = deps
    this.#until = deps.clock.now() + deps.settings.publishTimeoutMs * PATIENCE
  }

  /** Resolves when this one is decided. Throws 503; nothing is stored of the request then. */
  async wait(other: Promise<unknown> | undefined): Promise<void> {
    if (this.#deps.clock.now() >= this.#until) {
      throw unavailable(
        'RabbitMQ has not confirmed in time what comes before, with the same key.',
        'unconfirmed',
      )
    }
    await other
  }
}
