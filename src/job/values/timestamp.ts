/** Unix milliseconds as RFC 3339 text, with the last one cached. */

/**
 * Returns a function that formats Unix milliseconds as RFC 3339 text (seed 001 §6.3: UTC, with milliseconds).
 * It caches the last text, since many times of the same millisecond are formatted.
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
