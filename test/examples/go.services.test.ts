import { execFileSync } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { DEBIAN_GO, DEBIAN_GOPATH } from '../../scripts/test-environment.mjs'
import { ROOT, scratchDir } from '../sdk/bundle.ts'
import {
  Example,
  expectKeptDead,
  expectUsualJobs,
  publishJob,
  stageForAll,
  withExample,
} from './harness.ts'

const stage = stageForAll()
const folder = scratchDir()
const program = join(folder, 'worker')
const source = join(ROOT, 'examples', 'go', 'worker.go')

function go(...args: readonly string[]): void {
  // Debian packages Go sources for a GOPATH; without cgo no C compiler is needed.
  const go = { GO111MODULE: 'off', GOPATH: DEBIAN_GOPATH, CGO_ENABLED: '0', GOFLAGS: '' }
  execFileSync(DEBIAN_GO, args, { env: { ...process.env, ...go }, cwd: folder, stdio: 'inherit' })
}

beforeAll(() => {
  go('vet', source)
  go('build', '-o', program, source)
}, 180_000)

const RESULTS = `package main

import (
	"errors"
	"math"
	"testing"
)

func TestResults(t *testing.T) {
	bad := []any{math.NaN(), make(chan int), map[string]any{"id": int64(1) << 53}, []uint64{1 << 63}}
	for _, result := range bad {
		if _, err := tellable(result, nil); !errors.Is(err, errPermanent) {
			t.Errorf("%v: %v", result, err)
		}
	}
	good := []any{nil, 1<<53 - 1, -1.5e300, "9007199254740993", []any{map[string]any{"1e9": 0.1}}}
	for _, result := range good {
		if told, err := tellable(result, nil); err != nil || told == nil && result != nil {
			t.Errorf("%v: %v", result, err)
		}
	}
}
`

test('the Go worker has no result for what JSON or the gateway cannot hold: it fails the job', () => {
  copyFileSync(source, join(folder, 'results.go'))
  writeFileSync(join(folder, 'results_test.go'), RESULTS)
  go('test', 'results.go', 'results_test.go')
}, 180_000)

test('the Go worker completes, retries and discards jobs, and reads int32 attempts without complaint', async () => {
  await withExample(new Example(program, [], stage.env()), async (example) => {
    await expectUsualJobs(stage, example)
    expect(example.output).not.toContain('x-ojs-attempt is')
  })
})

test('the Go worker reports headers of a native job that fails, so that its retry has the tags', async () => {
  await withExample(new Example(program, [], stage.env()), async (example) => {
    const odd = { 'x-large': 2 ** 60, 'x-blob': Buffer.of(255), 'x-half': 0.5 }
    const headers = { 'x-ojs-tags': 'a,b', 'x-ojs-max-attempts': 7, ...odd }
    const id = await publishJob(stage, { args: ['a@flaky.example'] }, headers)
    const found = () => stage.client().getJob(id)
    await example.until(async () => (await found().catch(() => null))?.state === 'completed')
    expect(await found()).toMatchObject({ attempt: 2, tags: ['a', 'b'] })
  })
})

test('the Go worker survives messages whose x-ojs-attempt is no integer', async () => {
  const odd = [{ '!': 'int64', value: 1 }, 'two', null, true, -1]
  await withExample(new Example(program, [], stage.env()), async (example) => {
    for (const attempt of odd) await publishJob(stage, {}, { 'x-ojs-attempt': attempt })
    await expectUsualJobs(stage, example)
  })
})

test('the Go worker dead-letters a failed native job that is too large for a report', async () => {
  const example = new Example(program, [], stage.env())
  await withExample(example, () => expectKeptDead(stage, example))
})
