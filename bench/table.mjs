import { median, ratioOfMedians, summarise } from './statistics.mjs'

/**
 * @typedef {import('./rounds.mjs').Round} Round
 * @typedef {'ceiling' | 'gateway'} Side
 * @typedef {{ bytes: number, properties: string[] }} JobMessage
 */

/**
 * What a row of the table says.
 *
 * @typedef {object} Result
 * @property {string} kind
 * @property {readonly Round[]} [ceiling]
 * @property {readonly Round[]} gateway
 * @property {string} [note] printed below the table
 * @property {JobMessage} [jobMessage]
 *
 * @typedef {object} Measured
 * @property {string} title
 * @property {string | undefined} [wanted]
 * @property {Record<Side, string> | undefined} [sides] what is compared, if it is not the gateway with bare amqplib
 * @property {Result} result
 * @property {string} [brokerVersion]
 */

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

/**
 * Renders Markdown with aligned columns, since it is read in a terminal and in the README.
 * @param {readonly Measured[]} measured
 */
export function renderTable(measured) {
  const lines = [HEADINGS, ...measured.flatMap(linesOf)]
  const widths = HEADINGS.map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  )
  const text = lines.map((cells) => cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)))
  const rule = widths.map((width) => '-'.repeat(width))
  const [head = [], ...body] = text
  return [head, rule, ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

const BOTH = /** @type {const} */ (['ceiling', 'gateway'])

/**
 * @param {Measured} measured
 * @returns {string[][]}
 */
function linesOf({ title, wanted = '', sides = SIDES, result }) {
  return BOTH.flatMap((side) => {
    const rounds = result[side] ?? []
    if (rounds.length === 0) return []
    const isGateway = sides[side] !== SIDES.ceiling
    return [
      [
        title,
        sides[side],
        headline(result.kind, rounds),
        side === 'gateway' && result.ceiling ? ratio(result.kind, result.ceiling, rounds) : '',
        side === 'gateway' ? wanted : '',
        spread(rounds.map((round) => round.p50)),
        spread(rounds.map((round) => round.p99)),
        isGateway ? cpu(rounds, 'gateway') : '',
        isGateway ? whole(Math.max(...rounds.map(peakRss))) : '',
        cpu(rounds, 'broker'),
        cpu(rounds, 'load'),
        cpu(rounds, 'others'),
        costOf(rounds, isGateway ? PROCESSES : ['load']),
      ],
    ]
  })
}

/**
 * @param {string} kind
 * @param {readonly Round[]} rounds
 */
function headline(kind, rounds) {
  const [first] = rounds
  if (kind === 'latency') return `p50 ${spread(rounds.map((round) => round.p50))} ms`
  if (kind === 'lateness') return `at most ${whole(first?.max ?? Number.NaN)} ms late`
  if (kind === 'recovery') return `${spread(rounds.map((round) => round.emptyS))} s`
  if (kind === 'fleet') return `${first?.perWorker.toFixed(1)} messages each a minute`
  const { median: middle, min, max } = summarise(rounds.map((round) => round.rate))
  return `${whole(middle)}/s (${whole(min)}–${whole(max)})`
}

/**
 * The ratio of the medians. Its spread is that of neighbouring rounds, which the machine disturbs alike.
 * @param {string} kind
 * @param {readonly Round[]} ceiling
 * @param {readonly Round[]} gateway
 */
function ratio(kind, ceiling, gateway) {
  const figure = kind === 'latency' ? 'p50' : 'rate'
  const pairs = gateway.map(
    (round, index) => round[figure] / (ceiling[index]?.[figure] ?? Number.NaN),
  )
  const { min, max } = summarise(pairs)
  const digits = kind === 'latency' ? 1 : 2
  const middle = ratioOfMedians(ceiling, gateway, figure).toFixed(digits)
  return `${middle} (${min.toFixed(digits)}–${max.toFixed(digits)})`
}

/** @param {readonly number[]} values */
function spread(values) {
  if (values.some((value) => value === undefined)) return ''
  const { median: middle, min, max } = summarise(values)
  return `${middle.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`
}

/**
 * The value came from another process as JSON, which turns NaN into null.
 * @param {Round} round
 */
function peakRss({ rssMb }) {
  return rssMb ?? Number.NaN
}

/**
 * @param {readonly Round[]} rounds
 * @param {keyof Round['cpu']} name
 */
function cpu(rounds, name) {
  return whole(median(rounds.map((round) => percentOf(round, name))))
}

/**
 * @param {Round} round
 * @param {keyof Round['cpu']} name
 */
function percentOf({ cpu }, name) {
  return cpu[name] ?? Number.NaN
}

/** Those whose CPU belongs to a job, as far as a row has them. */
const PROCESSES = /** @type {const} */ (['gateway', 'ledger', 'load'])

/**
 * CPU for each job or message, in µs, as a sum and of each process; nothing where no rate is measured.
 * @param {readonly Round[]} rounds
 * @param {readonly (typeof PROCESSES)[number][]} processes
 */
function costOf(rounds, processes) {
  if (rounds.some(({ rate }) => rate === undefined)) return ''
  const each = processes
    .map((name) => ({
      name,
      us: median(rounds.map((round) => (percentOf(round, name) * 10_000) / round.rate)),
    }))
    .filter(({ us }) => !Number.isNaN(us))
  const sum = whole(each.reduce((all, { us }) => all + us, 0))
  return each.length < 2
    ? sum
    : `${sum}: ${each.map(({ name, us }) => `${name} ${whole(us)}`).join(', ')}`
}

/** @param {number} value */
function whole(value) {
  return Number.isNaN(value) ? '–' : Math.round(value).toLocaleString('en-GB')
}
