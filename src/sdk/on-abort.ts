const ALL = new WeakMap<AbortSignal, SharedListener>()

/**
 * Calls `end` when `signal` fires; what is returned takes that back. All calls that heed one signal
 * share a listener: from the eleventh on Node.js warns of a leak, and a handler that enqueues more
 * jobs at a time gives each of these calls its `ctx.signal`.
 */
export function onAbort(signal: AbortSignal, end: () => void): () => void {
  const shared = ALL.get(signal) ?? new SharedListener(signal)
  ALL.set(signal, shared)
  shared.add(end)
  return () => shared.delete(end)
}

class SharedListener {
  readonly #signal: AbortSignal
  readonly #ends = new Set<() => void>()
  readonly #abort = () => {
    for (const end of [...this.#ends]) end()
  }

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  add(end: () => void): void {
    this.#ends.add(end)
    // The same one again is no second one.
    this.#signal.addEventListener('abort', this.#abort)
  }

  delete(end: () => void): void {
    this.#ends.delete(end)
    if (this.#ends.size === 0) this.#signal.removeEventListener('abort', this.#abort)
  }
}
