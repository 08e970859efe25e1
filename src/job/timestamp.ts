/**
 * Makes RFC 3339 text of milliseconds (seed 001 §6.3: UTC, with milliseconds), and remembers the
 * last: what happens in the same millisecond shares it.
 */
export function timestamper(): (ms: number) => string {
  let lastMs = Number.NaN
  let lastText = ''
  return (ms) => {
    if (ms !== lastMs) {
      lastText = new Date(ms).toISOString()
      lastMs = ms
    }
    return lastText
  }
}
