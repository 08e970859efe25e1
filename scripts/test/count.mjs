import { existsSync, readFileSync } from 'node:fs'
import { reportOf, say } from '../process/progress.mjs'

/**
 * A test that failed; without `file` it was the run as a whole.
 * @typedef {{ file?: string, test: string, message: string }} Failure
 */
/** @typedef {{ passed: number, failed: number, failures: Failure[] }} Count */

/**
 * Reads the counts of a vitest run from its JSON report. A file that could not be loaded, an error outside of
 * any test, a crash and an empty run each count as one failure, so that none of them looks like success.
 * @param {string} reportFile
 * @param {number} exitCode
 * @returns {Count}
 */
export function countOf(reportFile, exitCode) {
  if (!existsSync(reportFile)) return { passed: 0, failed: 1, failures: [noReport(exitCode)] }
  const report = JSON.parse(readFileSync(reportFile, 'utf8'))
  const passed = report.numPassedTests
  const brokenFiles = report.testResults.filter(isBrokenFile).length
  const failed = report.numFailedTests + brokenFiles
  const isUnexplained = failed === 0 && (exitCode !== 0 || passed === 0)
  return { passed, failed: isUnexplained ? 1 : failed, failures: failuresOf(report) }
}

/**
 * @param {number} exitCode
 * @returns {Failure}
 */
function noReport(exitCode) {
  return { test: 'vitest', message: `ended with ${exitCode} and without a report` }
}

/**
 * @param {{ testResults: { name: string, assertionResults: { status: string, fullName: string,
 *   failureMessages?: string[] }[] }[] }} report
 * @returns {Failure[]}
 */
function failuresOf({ testResults }) {
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'failed')
      .map(({ fullName, failureMessages = [] }) => ({
        file: name,
        test: fullName,
        message: failureMessages.join('\n'),
      })),
  )
}

/** @param {{ status: string, assertionResults: { status: string }[] }} file */
function isBrokenFile({ status, assertionResults }) {
  return status === 'failed' && !assertionResults.some((each) => each.status === 'failed')
}

/**
 * Waits for runs that go on side by side, even if one rejects, so that none is left running. A rejected run
 * is printed and counts as one failure.
 * @template {{ count: Count }} R
 * @param {Promise<R>[]} runs
 * @returns {Promise<(R | { count: Count })[]>}
 */
export async function countsOfAll(runs) {
  const settled = await Promise.allSettled(runs)
  return settled.map((run) => {
    if (run.status === 'fulfilled') return run.value
    say(reportOf(run.reason))
    return { count: { passed: 0, failed: 1, failures: [] } }
  })
}
