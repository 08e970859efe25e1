import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { DEBIAN_GO, DEBIAN_GOPATH } from '../../scripts/test-environment.mjs'
import { ROOT, scratchDir } from '../sdk/bundle.ts'
import { Example, expectUsualJobs, publishJob, stageForAll, withExample } from './harness.ts'

const stage = stageForAll()
const program = join(scratchDir(), 'worker')

beforeAll(() => {
  // Debian packages Go sources for a GOPATH; without cgo no C compiler is needed.
  const go = { GO111MODULE: 'off', GOPATH: DEBIAN_GOPATH, CGO_ENABLED: '0', GOFLAGS: '' }
  const source = join(ROOT, 'examples', 'go', 'worker.go')
  const env = { ...process.env, ...go }
  execFileSync(DEBIAN_GO, ['vet', source], { env, stdio: 'inherit' })
  execFileSync(DEBIAN_GO, ['build', '-o', program, source], { env, stdio: 'inherit' })
}, 180_000)

test('the Go worker finds int32 attempts, and its jobs are completed over HTTP', async () => {
  await withExample(new Example(program, [], stage.env()), async (example) => {
    await expectUsualJobs(stage, example)
    expect(example.output).not.toContain('x-ojs-attempt is')
  })
}, 120_000)

test('the retry of a native job has what came beside its body', async () => {
  await withExample(new Example(program, [], stage.env()), async (example) => {
    const odd = { 'x-large': 2 ** 60, 'x-blob': Buffer.of(255), 'x-half': 0.5 }
    const headers = { 'x-ojs-tags': 'a,b', 'x-ojs-max-attempts': 7, ...odd }
    const id = await publishJob(stage, { args: ['a@flaky.example'] }, headers)
    const found = () => stage.client().getJob(id)
    await example.until(async () => (await found().catch(() => null))?.state === 'completed')
    expect(await found()).toMatchObject({ attempt: 2, tags: ['a', 'b'] })
  })
}, 120_000)

test('attempts of other types do not end it', async () => {
  const odd = [{ '!': 'int64', value: 1 }, 'two', null, true, -1]
  await withExample(new Example(program, [], stage.env()), async (example) => {
    for (const attempt of odd) await publishJob(stage, {}, { 'x-ojs-attempt': attempt })
    await expectUsualJobs(stage, example)
  })
}, 120_000)
