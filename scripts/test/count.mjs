import { existsSync, readFileSync } from 'node:fs'
import { reportOf, say } from '../process/progress.mjs'

/** @typedef {{ passed: number, failed: number }} Count */

/**
 * Reads the counts of a vitest run from its JSON report. A file that could not be loaded, an error outside of
 * any test, a crash and an empty run each count as one failure, so that none of them looks like success.
 * @param {string} reportFile
 * @param {number} exitCode
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

/** @param {{ status: string, assertionResults: { status: string }[] }} file */
function isBrokenFile({ status, assertionResults }) {
  return status === 'failed' && !assertionResults.some((each) => each.status === 'failed')
}

/**
 * Sums up runs that go on side by side, each a promise of its counts. Waits for all of them, even if one
 * rejects, so that none is left running. A rejected run is printed and counts as one failure.
 * @param {Promise<Count>[]} runs
 */
export async function sumOfAll(runs) {
  const total = { passed: 0, failed: 0 }
  for (const run of await Promise.allSettled(runs)) {
    if (run.status === 'rejected') say(reportOf(run.reason))
    total.passed += run.status === 'fulfilled' ? run.value.passed : 0
    total.failed += run.status === 'fulfilled' ? run.value.failed : 1
  }
  return total
}
