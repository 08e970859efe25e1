const HEAD = [
  'Scenario',
  'Rounds',
  'Jobs',
  'Faults',
  'Lost',
  'Executed twice',
  'In flight (bound)',
  'Problems',
]

/** The results that the crash tests have written (test/crash/results.ts), as a Markdown table. */
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

function rowOf(name, results) {
  const total = (member) => results.reduce((sum, result) => sum + result[member], 0)
  const sums = ['jobs', 'faults', 'lost', 'executedTwice', 'bound'].map(total)
  const problems = results.filter((result) => result.problems.length > 0).length
  return [name, results.length, ...sums, problems].map(formatted)
}

function formatted(cell) {
  return typeof cell === 'number' ? cell.toLocaleString('en') : cell
}
