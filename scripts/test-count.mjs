import { existsSync, readFileSync } from 'node:fs'

/**
 * Counts of a vitest run from its JSON report. A file that could not be loaded, an error outside
 * of any test, a crash and an empty run count as one failure each: none may look like success.
 */
export function countOf(reportFile, exitCode) {
  if (!existsSync(reportFile)) return { passed: 0, failed: 1 }
  const report = JSON.parse(readFileSync(reportFile, 'utf8'))
  const passed = report.numPassedTests
  const brokenFiles = report.testResults.filter(isBrokenFile).length
  const failed = report.numFailedTests + brokenFiles
  const isUnexplained = failed === 0 && (exitCode !== 0 || passed === 0)
  return { passed, failed: isUnexplained ? 1 : failed }
}

function isBrokenFile({ status, assertionResults }) {
  return status === 'failed' && !assertionResults.some((each) => each.status === 'failed')
}

export function sum(counts) {
  return counts.reduce(
    (total, { passed, failed }) => ({
      passed: total.passed + passed,
      failed: total.failed + failed,
    }),
    { passed: 0, failed: 0 },
  )
}
