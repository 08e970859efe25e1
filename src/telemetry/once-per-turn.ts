/**
 * `read`, called once for all who ask in the same turn. A scrape asks every gauge in one: prom-client
 * calls them one after another before it waits for the first.
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
