import { requireNode } from './process/node-version.mjs'

requireNode()

const { runTests } = await import('./test/run-tests.mjs')
const { Refusal, say } = await import('./process/progress.mjs')

let count = { passed: 0, failed: 1 }
try {
  count = await runTests(process.argv.slice(2))
} catch (error) {
  say(error instanceof Refusal ? error.message : error.stack)
}
console.log(`${count.passed} passed, ${count.failed} failed`)
process.exitCode = count.failed === 0 ? 0 : 1
