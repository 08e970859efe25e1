import { median, ratioOfMedians, summarise } from './statistics.mjs'

const HEADINGS = [
  'Row',
  'Side',
  'Median (min–max)',
  'Ratio (min–max)',
  'Wanted',
  'p50 ms',
  'p99 ms',
  'CPU % gateway',
  'RSS MB',
  'CPU % broker',
  'CPU % load',
  'CPU % others',
  'CPU µs each',
]
const SIDES = { ceiling: 'raw amqplib', gateway: 'gateway' }

/** Renders Markdown with aligned columns, since it is read in a terminal and in the README. */
export function renderTable(measured) {
  const lines = [HEADINGS, ...measured.flatMap(linesOf)]
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  const text = lines.map((cells) => cells.map((cell, column) => cell.padEnd(widths[column])))
  const rule = widths.map((width) => '-'.repeat(width))
  return [text[0], rule, ...text.slice(1)].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

/** `sides` names what is compared, if it is not the gateway with bare amqplib. */
function linesOf({ title, wanted, sides = SIDES, result }) {
  const isGateway = (side) => sides[side] !== SIDES.ceiling
  return Object.keys(sides)
    .filter((side) => result[side]?.length > 0)
    .map((side) => [
      title,
      sides[side],
      headline(result.kind, result[side]),
      side === 'gateway' && result.ceiling ? ratio(result) : '',
      side === 'gateway' ? wanted : '',
      spread(result[side].map((round) => round.p50)),
      spread(result[side].map((round) => round.p99)),
      isGateway(side) ? cpu(result[side], 'gateway') : '',
      isGateway(side) ? whole(Math.max(...result[side].map(peakRss))) : '',
      cpu(result[side], 'broker'),
      cpu(result[side], 'load'),
      cpu(result[side], 'others'),
      costOf(result[side]),
    ])
}

function headline(kind, rounds) {
  if (kind === 'latency') return `p50 ${spread(rounds.map((round) => round.p50))} ms`
  if (kind === 'lateness') return `at most ${whole(rounds[0].max)} ms late`
  if (kind === 'recovery') return `${spread(rounds.map((round) => round.emptyS))} s`
  if (kind === 'fleet') return `${rounds[0].perWorker.toFixed(1)} messages each a minute`
  const { median: middle, min, max } = summarise(rounds.map((round) => round.rate))
  return `${whole(middle)}/s (${whole(min)}–${whole(max)})`
}

/** The ratio of the medians. Its spread is that of neighbouring rounds, which the machine disturbs alike. */
function ratio({ kind, ceiling, gateway }) {
  const figure = kind === 'latency' ? 'p50' : 'rate'
  const pairs = gateway.map((round, index) => round[figure] / ceiling[index][figure])
  const { min, max } = summarise(pairs)
  const digits = kind === 'latency' ? 1 : 2
  const middle = ratioOfMedians(ceiling, gateway, figure).toFixed(digits)
  return `${middle} (${min.toFixed(digits)}–${max.toFixed(digits)})`
}

function spread(values) {
  if (values.some((value) => value === undefined)) return ''
  const { median: middle, min, max } = summarise(values)
  return `${middle.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`
}

/** The value came from another process as JSON, which turns NaN into null. */
function peakRss({ rssMb }) {
  return rssMb ?? Number.NaN
}

function cpu(rounds, name) {
  return whole(median(rounds.map((round) => round.cpu[name])))
}

/** CPU of gateway and load processes for each job or message, in µs; nothing where no rate is measured. */
function costOf(rounds) {
  if (rounds.some(({ rate }) => rate === undefined)) return ''
  const perCent = ({ cpu: { gateway, load } }) => (gateway || 0) + (load || 0)
  return whole(median(rounds.map((round) => (perCent(round) * 10_000) / round.rate)))
}

function whole(value) {
  return Number.isNaN(value) ? '–' : Math.round(value).toLocaleString('en-GB')
}
