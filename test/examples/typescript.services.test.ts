import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, test } from 'vitest'
import { ROOT, scratchDir } from '../sdk/bundle.ts'
import { Example, expectUsualJobs, runJob, stageForAll, withExample } from './harness.ts'

const stage = stageForAll()
const dir = scratchDir()

// Compiled like a user's program: against the package's exports, not against our sources.
beforeAll(() => {
  const modules = join(dir, 'node_modules')
  mkdirSync(modules)
  symlinkSync(ROOT, join(modules, 'ojs-rabbitmq'))
  writeFileSync(join(dir, 'package.json'), '{ "type": "module" }')
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
  const project = join(ROOT, 'examples', 'typescript')
  execFileSync(process.execPath, [tsc, '-p', project, '--outDir', dir], { stdio: 'inherit' })
})

describe.each(['http-worker', 'native-worker'])('the example %s in TypeScript', (name) => {
  test('completes, retries, discards and cancels jobs that were pushed over HTTP', async () => {
    const program = new Example(process.execPath, [join(dir, `${name}.js`)], stage.env())
    await withExample(program, async (example) => {
      await expectUsualJobs(stage, example)

      const report = { type: 'report.build', args: [3600], state: 'active' }
      const { id } = await runJob(stage, example, report)
      await example.until(() => example.has(`started ${id}`))
      await stage.client().cancelJob(id)
      await example.until(() => example.has(`cancelled ${id}`))
    })
  })
})
