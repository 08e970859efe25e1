/** SIGTERM and SIGINT for all workers of a process. */
import { SharedListener } from '../async/on-abort.ts'

/** The part of Node.js's `process` that is used. Browsers have nothing like it. */
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
  /** Stops listening; from then on a signal has the effect that it has without this worker. */
  end(): void
  /**
   * Call after `end()`. Sends the received signal to the process again, which ends it; not if the program has
   * listeners of its own. False: another worker of this process still listens; it will stop too, so call
   * again later.
   */
  raiseAgain(): boolean
}

/** Calls `onSignal` for each SIGTERM and SIGINT. Does nothing in a browser. */
export function listenToSignals(
  onSignal: (signal: string) => void,
  source: SignalSource | undefined = theProcess(),
): Signals {
  if (!source) return { end() {}, raiseAgain: () => true }
  let received: string | undefined
  const listener = (signal: string) => {
    received = signal
    onSignal(signal)
  }
  const shared = listenerOf(source)
  const end = shared.add(listener)
  return {
    end,
    raiseAgain() {
      if (received === undefined) return true
      if (shared.isHeard) return false
      if (source.listenerCount(received) === 0) source.kill(source.pid, received)
      return true
    },
  }
}

const ALL = new WeakMap<SignalSource, SharedListener<[signal: string]>>()

/** The listener that all workers of a process share. */
function listenerOf(source: SignalSource): SharedListener<[signal: string]> {
  const unlisten = (tell: (signal: string) => void) => {
    for (const signal of SIGNALS) source.off(signal, tell)
  }
  const listen = (tell: (signal: string) => void) => {
    unlisten(tell)
    for (const signal of SIGNALS) source.on(signal, tell)
  }
  const shared = ALL.get(source) ?? new SharedListener(listen, unlisten)
  ALL.set(source, shared)
  return shared
}

function theProcess(): SignalSource | undefined {
  const { process } = globalThis as { process?: Partial<SignalSource> }
  const isReal = typeof process?.kill === 'function' && typeof process.on === 'function'
  // Bundlers for browsers add a `process` that has no signals.
  return isReal ? (process as SignalSource) : undefined
}
