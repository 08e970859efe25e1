import { expect, it } from 'vitest'
import { BoundedLabels, SeriesByPair } from '../../src/telemetry/bounded-labels.ts'

/** More than there may be of all pairs. */
const OFTEN = 3_000

/** Series of one queue that keeps its name, and of every job type. */
function seriesOfOneQueue() {
  const made: string[] = []
  const types = new BoundedLabels(Number.POSITIVE_INFINITY)
  const series = new SeriesByPair(new BoundedLabels(1), types, (queue, type) => {
    made.push(`${queue} ${type}`)
    return made.length
  })
  series.get('first', 'a')
  return { series, made }
}

it('a pair beyond the limit of names is one pair, however often it comes', () => {
  const { series, made } = seriesOfOneQueue()
  for (let i = 0; i < OFTEN; i++) series.get(`queue-${i}`, 'a')
  series.get('first', 'b')
  expect(made).toEqual(['first a', 'other a', 'first b'])
})

it('what is beyond the limit of pairs shares one value', () => {
  const { series, made } = seriesOfOneQueue()
  const rest = new Set<number>()
  for (let i = 0; i < OFTEN; i++) {
    const value = series.get('first', `type-${i}`)
    if (made[value - 1] === 'other other') rest.add(value)
  }
  expect(rest.size).toBe(1)
  expect(made).toHaveLength(1_001)
})
