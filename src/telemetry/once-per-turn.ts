/** A read that all gauges of a scrape share. */

/**
 * Wraps `read` so that it is called once for all callers in the same turn of the event loop. A scrape reads
 * every gauge in one turn: prom-client calls them one after another before it waits for the first.
 */
export function oncePerTurn<T>(read: () => T): () => T {
  let kept: { value: T } | null = null
  return () => {
    if (kept !== null) return kept.value
    kept = { value: read() }
    queueMicrotask(() => {
      kept = null
    })
    return kept.value
  }
}
