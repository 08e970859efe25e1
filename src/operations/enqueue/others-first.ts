import { unavailable } from '../../errors.ts'
import type { Deps } from '../deps.ts'

/** Parts of the time that a confirm may take: a wait that says that RabbitMQ stalls … */
const SLOW = 1 / 10
/** … how much of such waits is enough … */
const PATIENCE = 1 / 2
/** … and how long anybody waits, however quick those before him are. */
const LIMIT = 2

/**
 * For a request that has to wait until others with its key, or with an id of its jobs, are decided.
 * Where RabbitMQ stalls, each of them takes the whole time that a confirm may take, and they would wait
 * one behind another; so nobody begins to wait again who has waited for long. Made with the first wait.
 */
export class OthersFirst {
  readonly #clock: Deps['clock']
  readonly #timeoutMs: number
  readonly #since: number
  #stalledMs = 0

  constructor({ clock, settings }: Pick<Deps, 'clock' | 'settings'>) {
    this.#clock = clock
    this.#timeoutMs = settings.publishTimeoutMs
    this.#since = clock.now()
  }

  /** Resolves when this one is decided. Throws 503; nothing is stored of the request then. */
  async wait(other: Promise<unknown> | undefined): Promise<void> {
    const began = this.#clock.now()
    const isStalling = this.#stalledMs >= this.#timeoutMs * PATIENCE
    if (isStalling || began - this.#since >= this.#timeoutMs * LIMIT) {
      throw unavailable(
        'RabbitMQ has not confirmed in time what comes before, with the same key or id.',
        'unconfirmed',
      )
    }
    await other
    const tookMs = this.#clock.now() - began
    if (tookMs >= this.#timeoutMs * SLOW) this.#stalledMs += tookMs
  }
}
