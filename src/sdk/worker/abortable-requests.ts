/** The requests of one worker, which end all at once. */
import { Pause } from '../async/sleep.ts'
import { OJSTransportError } from '../transport/errors.ts'
import { type Answer, type SendRequest, sendRequestOver } from '../transport/request.ts'
import type { Transport, TransportRequest } from '../transport/transport.ts'

/**
 * The requests of one worker and the pauses between them, which `end()` ends all at once. Each request has an
 * abort signal of its own: Node.js warns of a leak when one signal has many listeners.
 */
export class AbortableRequests {
  readonly #sendRequest: SendRequest
  readonly #open = new Set<AbortController>()
  readonly #pauses = new Set<Pause>()
  #hasEnded = false

  constructor(transport: Transport) {
    this.#sendRequest = sendRequestOver(transport)
  }

  /** Whether `end()` was called: nothing is sent or waited for any more. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /**
   * Sends a request. Rejects with `OJSError`, `OJSTransportError`, or whatever the transport throws. Rejects
   * at once when `end()` is called, even if the transport ignores its signal.
   */
  send(request: TransportRequest): Promise<Answer> {
    if (this.#hasEnded) return Promise.reject(aborted(request))
    const controller = new AbortController()
    this.#open.add(controller)
    return new Promise((resolve, reject) => {
      controller.signal.addEventListener('abort', () => reject(aborted(request)), { once: true })
      this.#sendRequest({ ...request, signal: controller.signal })
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

  /** Aborts all requests and ends all pauses. */
  end(): void {
    this.#hasEnded = true
    for (const controller of this.#open) controller.abort()
    for (const pause of this.#pauses) pause.wake()
  }
}

function aborted({ method, path }: TransportRequest): OJSTransportError {
  return new OJSTransportError(`${method} ${path}: the worker has ended.`, { kind: 'aborted' })
}
