/** Many subscribers to one abort signal or process signal by a single listener. */

const ALL = new WeakMap<AbortSignal, SharedListener<[]>>()

/**
 * Calls `end` when `signal` fires; the returned function undoes that. All callers share one listener per
 * signal: a handler that enqueues many jobs at a time passes its `ctx.signal` to each of these calls.
 */
export function onAbort(signal: AbortSignal, end: () => void): () => void {
  const shared = ALL.get(signal) ?? listenerOf(signal)
  ALL.set(signal, shared)
  return shared.add(end)
}

/** Throws `TypeError` if `signal` is something else, which programs without types may pass. */
export function requireSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined || typeof signal?.addEventListener === 'function') return
  throw new TypeError('signal must be an AbortSignal.')
}

function listenerOf(signal: AbortSignal): SharedListener<[]> {
  return new SharedListener(
    // Adding the same listener again has no effect.
    (tell) => signal.addEventListener('abort', tell),
    (tell) => signal.removeEventListener('abort', tell),
  )
}

/**
 * Shares one listener between any number of subscribers: Node.js warns of a leak from the eleventh listener
 * on. `listen` must have no effect if the listener is there already.
 */
export class SharedListener<Args extends readonly unknown[]> {
  readonly #listen: (tell: (...args: Args) => void) => void
  readonly #unlisten: (tell: (...args: Args) => void) => void
  readonly #all = new Set<(...args: Args) => void>()
  readonly #tell = (...args: Args) => {
    for (const each of [...this.#all]) each(...args)
  }

  constructor(
    listen: (tell: (...args: Args) => void) => void,
    unlisten: (tell: (...args: Args) => void) => void,
  ) {
    this.#listen = listen
    this.#unlisten = unlisten
  }

  get isHeard(): boolean {
    return this.#all.size > 0
  }

  /**
   * Adds a subscriber; the returned function removes it. Calls `listen` each time, because the program may
   * have removed all listeners meanwhile.
   */
  add(listener: (...args: Args) => void): () => void {
    this.#all.add(listener)
    this.#listen(this.#tell)
    return () => {
      this.#all.delete(listener)
      if (this.#all.size === 0) this.#unlisten(this.#tell)
    }
  }
}
