/** The charts of throughput and latency, of one queue or of all. */
import { type ReactNode, useMemo, useState } from 'react'
import type { StatsPoint } from '../api/openapi.ts'
import { useApi } from '../api/queries.ts'
import { duration } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Chart, type Line } from '../ui/chart.tsx'
import { Choices } from '../ui/choices.tsx'
import { Card } from '../ui/page.tsx'

const SPANS = {
  hour: { period: '1m', since: 'PT1H', every: 5_000 },
  day: { period: '5m', since: 'PT24H', every: 30_000 },
  month: { period: '1d', since: 'P30D', every: 300_000 },
} as const
type Span = keyof typeof SPANS
const NAMES = { hour: t.charts.hour, day: t.charts.day, month: t.charts.month }

export function Statistics({ queue }: { queue?: string }): ReactNode {
  const [span, setSpan] = useState<Span>('hour')
  const { period, since, every } = SPANS[span]
  const query = { period, since, ...(queue !== undefined && { queue }) }
  const history = useApi('GET /ojs/v1/admin/stats/history', { query }, { every })
  return (
    <>
      <Choices label={t.charts.span} of={NAMES} chosen={span} onChoose={setSpan} />
      <Loaded of={history}>{({ data }) => <Charts points={data} />}</Loaded>
    </>
  )
}

function Charts({ points }: { points: readonly StatsPoint[] }): ReactNode {
  const times = useMemo(
    () => points.map(({ timestamp }) => Date.parse(timestamp) / 1_000),
    [points],
  )
  const counts = useMemo(
    () => [
      line(t.charts.enqueued, 'blue', points, ({ enqueued }) => enqueued),
      line(t.charts.completed, 'green', points, ({ completed }) => completed),
      line(t.charts.failed, 'red', points, ({ failed }) => failed),
    ],
    [points],
  )
  const latencies = useMemo(
    () => [
      line(t.charts.median, 'blue', points, ({ latency_p50_ms: ms }) => ms ?? null),
      line(t.charts.p95, 'violet', points, ({ latency_p95_ms: ms }) => ms ?? null),
      line(t.charts.p99, 'amber', points, ({ latency_p99_ms: ms }) => ms ?? null),
    ],
    [points],
  )
  const durations = useMemo(
    () => [
      line(t.charts.median, 'blue', points, ({ duration_p50_ms: ms }) => ms ?? null),
      line(t.charts.p95, 'violet', points, ({ duration_p95_ms: ms }) => ms ?? null),
    ],
    [points],
  )
  return (
    <div className="cards">
      <Card title={t.charts.throughput}>
        <Chart label={t.charts.throughput} times={times} lines={counts} />
      </Card>
      <Card title={t.charts.latency}>
        <Chart label={t.charts.latency} times={times} lines={latencies} format={duration} />
      </Card>
      <Card title={t.charts.duration}>
        <Chart label={t.charts.duration} times={times} lines={durations} format={duration} />
      </Card>
    </div>
  )
}

function line(
  name: string,
  colour: string,
  points: readonly StatsPoint[],
  read: (point: StatsPoint) => number | null,
): Line {
  return { name, colour, values: points.map(read) }
}
