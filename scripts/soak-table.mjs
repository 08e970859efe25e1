/**
 * What test/crash/results.ts writes of a scenario, as far as the table shows it.
 *
 * @typedef {object} ScenarioResult
 * @property {string} scenario
 * @property {number} jobs
 * @property {number} faults
 * @property {number} lost
 * @property {number} executedTwice
 * @property {number} bound
 * @property {readonly number[]} servedMs
 * @property {readonly string[]} problems
 */

const SUMS = /** @type {const} */ (['jobs', 'faults', 'lost', 'executedTwice', 'bound'])

const HEAD = [
  'Scenario',
  'Rounds',
  'Jobs',
  'Faults',
  'Lost',
  'Executed twice',
  'In flight (bound)',
  'Served after, s (median, most)',
  'Problems',
]

/**
 * The results that the crash tests have written (test/crash/results.ts), as a Markdown table.
 * @param {readonly ScenarioResult[]} results
 */
export function soakTable(results) {
  const names = [...new Set(results.map(({ scenario }) => scenario))]
  const rows = names.map((name) =>
    rowOf(
      name,
      results.filter(({ scenario }) => scenario === name),
    ),
  )
  const lines = [HEAD, HEAD.map((_, i) => (i === 0 ? '---' : '--:')), ...rows]
  lines.push(rowOf('**all**', results))
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

/**
 * @param {string} name
 * @param {readonly ScenarioResult[]} results
 */
function rowOf(name, results) {
  /** @param {typeof SUMS[number]} member */
  const total = (member) => results.reduce((sum, result) => sum + result[member], 0)
  const sums = SUMS.map(total)
  const problems = results.filter((result) => result.problems.length > 0).length
  const served = servedAfter(results.flatMap(({ servedMs }) => servedMs))
  return [name, results.length, ...sums, served, problems].map(formatted)
}

/** @param {readonly number[]} times */
function servedAfter(times) {
  const sorted = times.toSorted((a, b) => a - b)
  const [middle, most] = [sorted[sorted.length >> 1], sorted.at(-1)]
  if (middle === undefined || most === undefined) return ''
  return [middle, most].map((ms) => (ms / 1_000).toFixed(1)).join(', ')
}

/** @param {string | number} cell */
function formatted(cell) {
  return typeof cell === 'number' ? cell.toLocaleString('en') : cell
}
