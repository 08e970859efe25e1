/**
 * The value below which the given share of `values` lies; NaN for none.
 * @param {readonly number[]} values
 * @param {number} share
 */
export function quantile(values, share) {
  if (values.length === 0) return Number.NaN
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}

/**
 * The middle value, or the mean of the two in the middle; NaN for none.
 * @param {readonly number[]} values
 */
export function median(values) {
  const sorted = Float64Array.from(values).sort()
  const middle = (sorted.length - 1) / 2
  const at = (/** @type {number} */ index) => sorted[index] ?? Number.NaN
  return (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2
}

/**
 * The ratio gateway / ceiling of the medians of one figure over the rounds.
 * @param {readonly import('./rounds.mjs').Round[]} ceiling
 * @param {readonly import('./rounds.mjs').Round[]} gateway
 * @param {import('./rounds.mjs').Figure} figure
 */
export function ratioOfMedians(ceiling, gateway, figure) {
  const of = (/** @type {typeof ceiling} */ rounds) => median(rounds.map((round) => round[figure]))
  return of(gateway) / of(ceiling)
}

/**
 * Median, minimum and maximum of one figure over the rounds of a row.
 * @param {readonly number[]} values
 */
export function summarise(values) {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) }
}
