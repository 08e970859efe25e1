import { OJSError, OJSTransportError } from './errors.ts'
import { type Answer, type Exchange, exchangeOver } from './exchange.ts'
import { Pause } from './pause.ts'
import { retryAfterMs } from './retry.ts'
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

/** However long the server asks to be left alone: a proxy's word must not end a worker. */
const MAX_REST_MS = 60_000

/**
 * Milliseconds: `base`, doubled with each failure up to `max` and shortened by up to a half at
 * random; no less than the server asked for, up to a minute.
 */
export function backoffMs(error: unknown, failures: number, base: number, max: number): number {
  const backoff = Math.min(max, base * 2 ** Math.min(failures, 30))
  const asked = Math.min(retryAfterMs(error), MAX_REST_MS)
  return Math.max(asked, backoff * (0.5 + Math.random() / 2))
}

/**
 * What a refused report means. `stale`: the server waits for it no more (409; 404: not even the
 * job is there). `refused`: what it says is not acceptable. Everything else may pass: the server
 * is away, its credentials are being renewed.
 */
export function verdictOn(error: unknown): 'stale' | 'refused' | 'again' {
  // Of a proxy that takes less than the server: the same body is too large for it every time.
  if (error instanceof OJSTransportError && error.status === 413) return 'refused'
  if (!(error instanceof OJSError)) return 'again'
  if (error.status === 409 || error.status === 404) return 'stale'
  return [400, 413, 422].includes(error.status ?? 0) && !error.retryable ? 'refused' : 'again'
}
