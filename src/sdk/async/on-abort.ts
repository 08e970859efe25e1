import { SharedListener } from './shared-listener.ts'

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
