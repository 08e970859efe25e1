import { requireNode } from './process/node-version.mjs'

requireNode()

const { runTests } = await import('./test/run-tests.mjs')
const { reportOf, say } = await import('./process/progress.mjs')

let count = { passed: 0, failed: 1 }
try {
  count = await runTests(process.argv.slice(2))
} catch (error) {
  say(reportOf(error))
}
console.log(`${count.passed} passed, ${count.failed} failed`)
process.exitCode = count.failed === 0 ? 0 : 1
