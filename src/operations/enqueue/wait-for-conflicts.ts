/** How long a request waits for others with the same key or id before it gets a 503. */
import { unavailable } from '../../errors.ts'
import type { Deps } from '../deps.ts'

// All three are multiples of the publish timeout.
/** A wait at least this long means that RabbitMQ stalls. */
const SLOW = 1 / 10
/** After slow waits of this length in all, a request does not wait again. */
const PATIENCE = 1 / 2
/** A request does not wait again after this time since its first wait, however short the waits were. */
const LIMIT = 2

/**
 * Lets a request wait until other requests with the same key or job id are decided. While RabbitMQ stalls,
 * each of those takes the whole publish timeout, and the requests would wait one behind another; so a request
 * that has waited long gets a 503 instead of another wait. To be made at the first wait.
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

  /** Resolves when `other` is decided. Throws 503 after too much waiting; nothing has been stored then. */
  async wait(other: Promise<unknown> | undefined): Promise<void> {
    const began = this.#clock.now()
    const isStalling = this.#stalledMs >= this.#timeoutMs * PATIENCE
    if (isStalling || began - this.#since >= this.#timeoutMs * LIMIT) {
      throw unavailable(
        'RabbitMQ has not confirmed an earlier job with the same key or id in time.',
        'unconfirmed',
      )
    }
    await other
    const tookMs = this.#clock.now() - began
    if (tookMs >= this.#timeoutMs * SLOW) this.#stalledMs += tookMs
  }
}
