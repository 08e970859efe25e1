// Runs the few test files that failed once more, alone: on two cores a test may have lost a race with the
// others for the CPU. A test that passes then counts as passed, and is named as flaky for all to see.

/** @typedef {import('./count.mjs').Count} Count */
/** @typedef {import('./count.mjs').Failure} Failure */

/** More than these are not bad luck. */
const MOST_FILES = 4

/**
 * Whether a failure may come from a slow machine. A crash test that did not merely run out of time is a
 * finding: a job that is lost once is lost.
 * @param {Failure} failure
 */
function mayBeBadLuck({ file, message }) {
  if (file === undefined) return false
  return !file.includes('test/crash/') || /timed out|in time|Timeout/.test(message)
}

/**
 * The counts of all runs after the second try. `again` runs files of one run once more, alone.
 * @param {{ count: Count, again?: (files: string[]) => Promise<Count> }[]} runs
 * @param {(line: string) => void} say
 */
export async function withSecondTry(runs, say) {
  const isFew = new Set(runs.flatMap(({ count }) => filesOf(count))).size <= MOST_FILES
  const total = { passed: 0, failed: 0 }
  for (const { count, again } of runs) {
    const final = isFew && again ? await secondTry(count, again, say) : count
    for (const failure of final.failures) say(`FAILED ${described(failure)}`)
    total.passed += final.passed
    total.failed += final.failed
  }
  return total
}

/**
 * @param {Count} count
 * @param {(files: string[]) => Promise<Count>} again
 * @param {(line: string) => void} say
 * @returns {Promise<Count>}
 */
async function secondTry(count, again, say) {
  const files = filesOf(count)
  if (files.length === 0 || !count.failures.every(mayBeBadLuck)) return count
  // A failure without a test (a file that could not be loaded, an unhandled error) is in `failed` only.
  if (count.failures.length !== count.failed) return count
  const { failed, failures } = await again(files)
  if (failed > 0) return { ...count, failures: [...count.failures, ...failures] }
  for (const failure of count.failures) say(`FLAKY, passed alone: ${described(failure)}`)
  return { passed: count.passed + count.failed, failed: 0, failures: [] }
}

/** @param {Count} count */
function filesOf({ failures }) {
  return [...new Set(failures.flatMap(({ file }) => (file === undefined ? [] : [file])))]
}

/** @param {Failure} failure */
function described({ file, test, message }) {
  const [line] = message.split('\n')
  return `${file ?? 'a run'} > ${test}: ${line}`
}
