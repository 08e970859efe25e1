import { requireNode } from './process/node-version.mjs'

requireNode()

// Not a static import: on an old Node only the check above may run.
const { start } = await import('./process/start-gateway.mjs')
const { Refusal, reportOf, say } = await import('./process/progress.mjs')

try {
  if (process.argv.length > 2) {
    throw new Refusal(
      'npm start takes no arguments. OJS_* variables configure it: docs/reference/configuration.md.',
    )
  }
  process.exitCode = await start()
} catch (error) {
  say(reportOf(error))
  process.exitCode = 1
}
