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
  const end = () => {
    for (const signal of SIGNALS) source.off(signal, listener)
  }
  for (const signal of SIGNALS) source.on(signal, listener)
  return {
    end,
    raiseAgain() {
      if (last !== undefined && source.listenerCount(last) === 0) source.kill(source.pid, last)
    },
  }
}

function theProcess(): SignalSource | undefined {
  const { process } = globalThis as { process?: Partial<SignalSource> }
  const isReal = typeof process?.kill === 'function' && typeof process.on === 'function'
  // Bundlers put a `process` without signals into browsers.
  return isReal ? (process as SignalSource) : undefined
}
