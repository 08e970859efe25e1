/** The part of Node.js's `process` that is used; nothing of the kind exists in a browser. */
interface SignalSource {
  on(signal: string, listener: (signal: string) => void): unknown
  off(signal: string, listener: (signal: string) => void): unknown
  listenerCount(signal: string): number
  kill(pid: number, signal: string): unknown
  readonly pid: number
}

const SIGNALS = ['SIGTERM', 'SIGINT']

/** The process id; `undefined` in a browser. */
export function processId(): number | undefined {
  return theProcess()?.pid
}

export interface Signals {
  /** Stops listening; from then on signals do what they do without us. */
  end(): void
  /** After the end: lets the signal that came do what it does without us, unless others listen. */
  raiseAgain(): void
}

/** Calls `onSignal` for each SIGTERM and SIGINT. Does nothing where there is no process. */
export function listenToSignals(
  onSignal: (signal: string) => void,
  source: SignalSource | undefined = theProcess(),
): Signals {
  if (!source) return { end() {}, raiseAgain() {} }
  let last: string | undefined
  const listener = (signal: string) => {
    last = signal
    onSignal(signal)
  }
  const listeners = listenersOf(source)
  listeners.add(listener)
  return {
    end: () => listeners.delete(listener),
    raiseAgain() {
      if (last !== undefined && source.listenerCount(last) === 0) source.kill(source.pid, last)
    },
  }
}

const ALL = new WeakMap<SignalSource, SharedListener>()

function listenersOf(source: SignalSource): SharedListener {
  const known = ALL.get(source)
  if (known) return known
  const shared = new SharedListener(source)
  ALL.set(source, shared)
  return shared
}

/** One for all workers of a process: from the eleventh listener on Node.js warns of a leak. */
class SharedListener {
  readonly #source: SignalSource
  readonly #listeners = new Set<(signal: string) => void>()
  readonly #tell = (signal: string) => {
    for (const listener of [...this.#listeners]) listener(signal)
  }

  constructor(source: SignalSource) {
    this.#source = source
  }

  add(listener: (signal: string) => void): void {
    this.#listeners.add(listener)
    // Again for each one: the program may have removed all listeners of its process.
    this.#unlisten()
    for (const signal of SIGNALS) this.#source.on(signal, this.#tell)
  }

  delete(listener: (signal: string) => void): void {
    this.#listeners.delete(listener)
    if (this.#listeners.size === 0) this.#unlisten()
  }

  #unlisten(): void {
    for (const signal of SIGNALS) this.#source.off(signal, this.#tell)
  }
}

function theProcess(): SignalSource | undefined {
  const { process } = globalThis as { process?: Partial<SignalSource> }
  const isReal = typeof process?.kill === 'function' && typeof process.on === 'function'
  // Bundlers put a `process` without signals into browsers.
  return isReal ? (process as SignalSource) : undefined
}
