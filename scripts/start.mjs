import { requireNode } from './process/node-version.mjs'

requireNode()

// Not a static import: on an old Node only the check above may run.
const { start } = await import('./process/start-gateway.mjs')
const { Refusal, say } = await import('./process/progress.mjs')

try {
  if (process.argv.length > 2) {
    throw new Refusal(
      'npm start takes no arguments. OJS_* variables configure it: README.md, "Configuration".',
    )
  }
  process.exitCode = await start()
} catch (error) {
  say(error instanceof Refusal ? error.message : error.stack)
  process.exitCode = 1
}
