import { expect, it } from 'vitest'
import { BoundedLabels, SeriesByPair } from '../../src/telemetry/bounded-labels.ts'

/** More than the limit of pairs. */
const MANY = 3_000

/** Series with a limit of one queue name and no limit of job types; `first` takes the queue name. */
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

it('SeriesByPair makes one series for all queues beyond the limit of names', () => {
  const { series, made } = seriesOfOneQueue()
  for (let i = 0; i < MANY; i++) series.get(`queue-${i}`, 'a')
  series.get('first', 'b')
  expect(made).toEqual(['first a', 'other a', 'first b'])
})

it('SeriesByPair makes one series for all pairs beyond the limit of 1000', () => {
  const { series, made } = seriesOfOneQueue()
  const rest = new Set<number>()
  for (let i = 0; i < MANY; i++) {
    const value = series.get('first', `type-${i}`)
    if (made[value - 1] === 'other other') rest.add(value)
  }
  expect(rest.size).toBe(1)
  expect(made).toHaveLength(1_001)
})
