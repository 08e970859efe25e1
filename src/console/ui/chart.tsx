/** Lines over time, drawn by uPlot, in the colours of the theme. */
import { type ReactNode, useEffect, useRef } from 'react'
import UPlot from 'uplot'
import { clock, date, short } from '../text/format.ts'

export interface Line {
  name: string
  /** A CSS variable. */
  colour: string
  values: readonly (number | null)[]
}

interface ChartProps {
  /** What it shows, for those who do not see it. */
  label: string
  /** Unix time in seconds. */
  times: readonly number[]
  lines: readonly Line[]
  /** A value in words; the same function at every call. */
  format?: (value: number) => string
}

const HEIGHT = 180
const LETTER_PX = 6.5

export function Chart({ label, times, lines, format = short }: ChartProps): ReactNode {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot | null>(null)
  const names = lines.map(({ name }) => name).join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the data has an effect of its own
  useEffect(() => {
    const element = box.current
    if (!element) return undefined
    const made = new UPlot(optionsOf(lines, element, format), dataOf(times, lines), element)
    plot.current = made
    const watcher = new ResizeObserver(() => {
      made.setSize({ width: element.clientWidth, height: HEIGHT })
    })
    watcher.observe(element)
    const theme = new MutationObserver(() => made.redraw(false))
    theme.observe(document.documentElement, { attributes: true })
    return () => {
      watcher.disconnect()
      theme.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [names, format])
  useEffect(() => plot.current?.setData(dataOf(times, lines)), [times, lines])
  return (
    <figure className="chart">
      <div ref={box} role="img" aria-label={`${label}: ${summary(lines, format)}`} />
      <figcaption>
        {lines.map(({ name, colour, values }) => (
          <span key={name}>
            <i className={`dot ${colour}`} />
            {name} <b>{inWords(latest(values), format)}</b>
          </span>
        ))}
      </figcaption>
    </figure>
  )
}

function latest(values: Line['values']): number | undefined {
  return values.findLast((value) => value !== null) ?? undefined
}

function inWords(value: number | undefined, format: (value: number) => string): string {
  return value === undefined ? '–' : format(value)
}

function summary(lines: readonly Line[], format: (value: number) => string): string {
  return lines.map(({ name, values }) => `${name} ${inWords(latest(values), format)}`).join(', ')
}

function dataOf(times: readonly number[], lines: readonly Line[]): UPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => [...values])]
}

function optionsOf(
  lines: readonly Line[],
  element: HTMLElement,
  format: (value: number) => string,
): UPlot.Options {
  const colour = (name: string) => () =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
  const axis: UPlot.Axis = {
    stroke: colour('faint'),
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui',
  }
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [
      {
        ...axis,
        size: 30,
        values: (_plot, ticks) => ticks.map(isOfDays(ticks) ? day : minute),
      },
      {
        ...axis,
        size: (_plot, labels) => 12 + LETTER_PX * longest(labels ?? []),
        values: (_plot, ticks) => ticks.map(format),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.name,
        stroke: colour(line.colour),
        width: 2,
        points: { show: (plot: UPlot, place: number) => isLonely(plot.data[place] ?? []) },
      })),
    ],
  }
}

/** Ticks of a day and more apart tell no time of the day. */
function isOfDays([first = 0, second = first]: readonly number[]): boolean {
  return second - first >= 86_400
}

function day(tick: number): string {
  return date(tick * 1_000)
}

function minute(tick: number): string {
  return clock(tick * 1_000).slice(0, 5)
}

/** A line of a single value would not be seen. */
function isLonely(values: ArrayLike<number | null | undefined>): boolean {
  return Array.from(values).filter((value) => value !== null).length < 2
}

function longest(texts: readonly string[]): number {
  return Math.max(4, ...texts.map(({ length }) => length))
}
