/** Traffic over time, in the periods that a client asks for. */
import { echoed, invalidField } from '../errors.ts'
import { timestamp } from './document.ts'
import { parseDuration } from './values/duration.ts'
import { type Histogram, mergeInto, percentile } from './values/histogram.ts'
import { parseInstant } from './values/instant.ts'

const PERIODS = { '1m': 60_000, '5m': 300_000, '1h': 3_600_000, '1d': 86_400_000 } as const
const MAX_POINTS = 1_500
const DEFAULT_SPAN_MS = 3_600_000

/** What `GET /admin/stats/history` asks for. `from` and `to` are multiples of the period. */
export interface StatsQuery {
  period: keyof typeof PERIODS
  span: 'minute' | 'hour'
  from: number
  to: number
}

/** Reads the query; a duration as `since` or `until` means "so long ago". Throws 400. */
export function statsQuery(
  given: { period: string | null; since: string | null; until: string | null },
  now: number,
): StatsQuery {
  const period = given.period ?? '5m'
  if (!isPeriod(period)) {
    throw invalidField('period', "The 'period' parameter must be 1m, 5m, 1h or 1d.", {
      received: echoed(period),
    })
  }
  const ms = PERIODS[period]
  const until = instantOf(given.until, 'until', now, now)
  const since = instantOf(given.since, 'since', now, until - DEFAULT_SPAN_MS)
  if (since >= until) throw invalidField('since', "The 'since' parameter must be before 'until'.")
  const from = Math.floor(since / ms) * ms
  const to = Math.ceil(until / ms) * ms
  if ((to - from) / ms > MAX_POINTS) {
    throw invalidField(
      'since',
      `That is more than ${MAX_POINTS} points: ask for a longer period.`,
      {
        max_points: MAX_POINTS,
      },
    )
  }
  return { period, span: ms < PERIODS['1h'] ? 'minute' : 'hour', from, to }
}

function isPeriod(text: string): text is keyof typeof PERIODS {
  return Object.hasOwn(PERIODS, text)
}

function instantOf(text: string | null, field: string, now: number, fallback: number): number {
  if (text === null) return fallback
  const isDuration = /^(?:P|\d+(?:\.\d+)?(?:ms|[smhdw])$)/.test(text)
  return isDuration ? now - parseDuration(text, field) : parseInstant(text, field, now).ms
}

interface Counts {
  enqueued: number
  completed: number
  failed: number
  retried: number
  waited: number
  waitMs: number
  durations: Histogram
  waits: Histogram
}

/** One point per period, those without traffic too; the members of OJS's document and of its clients. */
export function statsPoints(
  { period, from, to }: StatsQuery,
  traffic: readonly (Counts & { start: number })[],
): Record<string, unknown>[] {
  const ms = PERIODS[period]
  const points = Array.from(
    { length: (to - from) / ms },
    (): Counts => ({
      ...{ enqueued: 0, completed: 0, failed: 0, retried: 0, waited: 0, waitMs: 0 },
      durations: new Map(),
      waits: new Map(),
    }),
  )
  for (const part of traffic) {
    const point = points[Math.floor((part.start - from) / ms)]
    if (point) add(point, part)
  }
  return points.map((point, i) => pointDocument(from + i * ms, point))
}

function add(point: Counts, part: Counts): void {
  point.enqueued += part.enqueued
  point.completed += part.completed
  point.failed += part.failed
  point.retried += part.retried
  point.waited += part.waited
  point.waitMs += part.waitMs
  mergeInto(point.durations, part.durations)
  mergeInto(point.waits, part.waits)
}

function pointDocument(start: number, point: Counts): Record<string, unknown> {
  const { completed, failed, retried, waited, waitMs, durations, waits } = point
  return {
    timestamp: timestamp(start),
    processed: completed,
    completed,
    failed,
    retried,
    // A job that was withdrawn may have been stored in the minute before.
    enqueued: Math.max(0, point.enqueued),
    ...percentiles('latency', waits),
    ...percentiles('duration', durations),
    ...(waited > 0 && { avg_latency_ms: Number((waitMs / waited).toFixed(1)) }),
  }
}

function percentiles(name: string, histogram: Histogram): Record<string, number> {
  if (histogram.size === 0) return {}
  const shares = { p50: 0.5, p95: 0.95, p99: 0.99 }
  return Object.fromEntries(
    Object.entries(shares).map(([key, share]) => [
      `${name}_${key}_ms`,
      percentile(histogram, share) ?? 0,
    ]),
  )
}
