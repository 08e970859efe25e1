import { expect, test } from 'vitest'
import { OjsError } from '../../src/errors.ts'
import { statsPoints, statsQuery } from '../../src/job/stats-history.ts'

const NOW = Date.parse('2026-11-29T10:02:30Z')
const ask = (given: Partial<Parameters<typeof statsQuery>[0]>) =>
  statsQuery({ period: null, since: null, until: null, ...given }, NOW)
const iso = (ms: number) => new Date(ms).toISOString().slice(0, 16)

test('the default is the last hour in periods of five minutes, aligned in UTC', () => {
  const { from, to, ...rest } = ask({})
  expect(rest).toEqual({ period: '5m', span: 'minute' })
  expect([iso(from), iso(to)]).toEqual(['2026-11-29T09:00', '2026-11-29T10:05'])
})

test('a duration means so long ago, and hours come from the rows of hours', () => {
  const query = ask({ period: '1h', since: 'PT24H', until: '2026-11-29T09:00:00Z' })
  expect(query.span).toBe('hour')
  expect([iso(query.from), iso(query.to)]).toEqual(['2026-11-28T10:00', '2026-11-29T09:00'])
  expect(ask({ since: '24h' }).from).toBe(ask({ since: 'P1D' }).from)
})

test('a query that cannot be answered names its parameter', () => {
  for (const [given, field] of [
    [{ period: '2m' }, 'period'],
    [{ period: 'toString' }, 'period'],
    [{ since: 'yesterday' }, 'since'],
    [{ until: '5 minutes' }, 'until'],
    [{ since: '1h', until: '2h' }, 'since'],
    [{ period: '1m', since: '26h' }, 'since'],
  ] as const) {
    let thrown: unknown
    try {
      ask(given)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(OjsError)
    expect(thrown).toMatchObject({ status: 400, details: { field } })
  }
})

test('periods add up their minutes, and those without traffic are zeros without percentiles', () => {
  const query = ask({ since: '2026-11-29T10:00:00Z', until: '2026-11-29T10:10:00Z' })
  const minute = (start: number, enqueued: number, ms: number) => ({
    ...{ start, enqueued, completed: 1, failed: 0, retried: 0, waited: 1, waitMs: ms },
    durations: new Map([[1, 1]]),
    waits: new Map([[1, 1]]),
  })
  const points = statsPoints(query, [minute(query.from, 1, 4), minute(query.from + 240_000, 2, 5)])
  expect(points).toHaveLength(2)
  expect(points[0]).toMatchObject({ enqueued: 3, processed: 2, avg_latency_ms: 4.5 })
  expect(points[0]).toHaveProperty('latency_p99_ms')
  expect(points[1]).toEqual({
    timestamp: '2026-11-29T10:05:00.000Z',
    ...{ processed: 0, completed: 0, failed: 0, retried: 0, enqueued: 0 },
  })
})
