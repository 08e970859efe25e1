/** Histograms of durations on a logarithmic scale, which can be added up and asked for percentiles. */

/**
 * How many durations fell into each bucket. Bucket 0: below 1 ms; bucket i: from 2^((i−1)/4) up to 2^(i/4) ms.
 * Four buckets an octave: a percentile is off by 9 % at most. A duration of 100 days is in bucket 133.
 */
export type Histogram = Map<number, number>

const PER_OCTAVE = 4

export function addTo(histogram: Histogram, ms: number, count = 1): void {
  addToBucket(histogram, bucketOf(ms), count)
}

export function mergeInto(histogram: Histogram, other: Histogram): void {
  for (const [bucket, count] of other) addToBucket(histogram, bucket, count)
}

function addToBucket(histogram: Histogram, bucket: number, count: number): void {
  histogram.set(bucket, (histogram.get(bucket) ?? 0) + count)
}

function bucketOf(ms: number): number {
  return ms < 1 ? 0 : 1 + Math.floor(Math.log2(ms) * PER_OCTAVE)
}

/** The duration below which this share (0 to 1) of all are, in ms; null: there are none. */
export function percentile(histogram: Histogram, share: number): number | null {
  let total = 0
  for (const count of histogram.values()) total += count
  let left = Math.max(1, Math.ceil(share * total))
  for (const bucket of [...histogram.keys()].sort((a, b) => a - b)) {
    left -= histogram.get(bucket) ?? 0
    if (left <= 0) return middleOf(bucket)
  }
  return null
}

function middleOf(bucket: number): number {
  return bucket === 0 ? 0 : Number((2 ** ((bucket - 0.5) / PER_OCTAVE)).toPrecision(3))
}

/** As text for the ledger: `5:3 7:1`. */
export function histogramText(histogram: Histogram): string {
  return [...histogram].map(([bucket, count]) => `${bucket}:${count}`).join(' ')
}

export function readHistogram(text: string): Histogram {
  const parts = text === '' ? [] : text.split(' ')
  return new Map(
    parts.map((part): [number, number] => {
      const [bucket = '', count = ''] = part.split(':')
      return [Number(bucket), Number(count)]
    }),
  )
}
