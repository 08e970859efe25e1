import { SharedListener } from './shared-listener.ts'

const ALL = new WeakMap<AbortSignal, SharedListener<[]>>()

/**
 * Calls `end` when `signal` fires; what is returned takes that back. A handler that enqueues many
 * jobs at a time gives each of these calls its `ctx.signal`: they share a listener.
 */
export function onAbort(signal: AbortSignal, end: () => void): () => void {
  const shared = ALL.get(signal) ?? listenerOf(signal)
  ALL.set(signal, shared)
  return shared.add(end)
}

/** Throws `TypeError` for what programs without types give instead. */
export function requireSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined || typeof signal?.addEventListener === 'function') return
  throw new TypeError('signal must be an AbortSignal.')
}

function listenerOf(signal: AbortSignal): SharedListener<[]> {
  return new SharedListener(
    // The same one again is no second one.
    (tell) => signal.addEventListener('abort', tell),
    (tell) => signal.removeEventListener('abort', tell),
  )
}
