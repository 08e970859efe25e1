import { OJSTransportError } from './errors.ts'
import { type Answer, type Exchange, exchangeOver } from './exchange.ts'
import { Pause } from './pause.ts'
import type { Transport, TransportRequest } from './transport.ts'

/**
 * The requests of one worker and the waits between them; all can be ended at once. Each has an
 * abort signal of its own: hundreds of listeners on a common one make Node.js warn of a leak.
 */
export class Courier {
  readonly #exchange: Exchange
  readonly #open = new Set<AbortController>()
  readonly #pauses = new Set<Pause>()
  #hasEnded = false

  constructor(transport: Transport) {
    this.#exchange = exchangeOver(transport)
  }

  /** From now on nothing is sent nor waited for. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /**
   * Rejects with `OJSError`, `OJSTransportError`, or whatever the transport throws; at once when
   * all is ended, even where the transport does not heed its signal.
   */
  send(request: TransportRequest): Promise<Answer> {
    if (this.#hasEnded) return Promise.reject(aborted(request))
    const controller = new AbortController()
    this.#open.add(controller)
    return new Promise((resolve, reject) => {
      controller.signal.addEventListener('abort', () => reject(aborted(request)), { once: true })
      this.#exchange({ ...request, signal: controller.signal })
        .then(resolve, reject)
        .finally(() => this.#open.delete(controller))
    })
  }

  async sleep(ms: number, pause: Pause = new Pause()): Promise<void> {
    if (this.#hasEnded) return
    this.#pauses.add(pause)
    await pause.sleep(ms)
    this.#pauses.delete(pause)
  }

  /** Aborts what is under way and wakes who waits. */
  end(): void {
    this.#hasEnded = true
    for (const controller of this.#open) controller.abort()
    for (const pause of this.#pauses) pause.wake()
  }
}

function aborted({ method, path }: TransportRequest): OJSTransportError {
  return new OJSTransportError(`${method} ${path}: the worker has ended.`, { kind: 'aborted' })
}
