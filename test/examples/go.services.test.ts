import { execFileSync } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { DEBIAN_GO, DEBIAN_GOPATH } from '../../scripts/test/environment.mjs'
import { ROOT, scratchDir } from '../sdk/bundle.ts'
import {
  asClient,
  Example,
  expectKeptDead,
  expectUsualJobs,
  publishJob,
  runJob,
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

/** The example with other handlers: they panic, end their goroutine or their process, or wait. */
const hostile = join(folder, 'hostile')
const HOSTILE = `
type mute struct{}

func (mute) Error() string { panic("no text") }

func hostile(j job, attempt int32) (any, error) {
	var what string
	_ = json.Unmarshal(j.Args[0], &what)
	fmt.Println("ran " + j.ID)
	switch what {
	case "panic":
		var none map[string]int
		none["x"] = 1
	case "goexit":
		runtime.Goexit()
	case "mute":
		return nil, mute{}
	case "exit":
		os.Exit(3)
	case "wait":
		time.Sleep(2 * time.Second)
	case "hang":
		select {}
	}
	return attempt, nil
}
`

beforeAll(() => {
  go('vet', source)
  go('build', '-o', program, source)
  const text = readFileSync(source, 'utf8')
    .replace('"os/signal"\n', '"os/signal"\n\t"runtime"\n')
    .replace('tellable(sendEmail(j, attempt))', 'tellable(hostile(j, attempt))')
  writeFileSync(join(folder, 'hostile.go'), text + HOSTILE)
  go('build', '-o', hostile, 'hostile.go')
}, 180_000)

const RESULTS = `package main

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func nested(depth int) any {
	if depth == 0 {
		return 1
	}
	return []any{nested(depth - 1)}
}

func TestResults(t *testing.T) {
	bad := []any{math.NaN(), make(chan int), map[string]any{"id": int64(1) << 53}, []uint64{1 << 63}}
	bad = append(bad, nested(32), strings.Repeat("x", 1<<20))
	for _, result := range bad {
		if _, err := tellable(result, nil); !errors.Is(err, errPermanent) {
			t.Errorf("%v: %v", result, err)
		}
	}
	good := []any{nested(31), strings.Repeat("x", 1<<20-2), nil, 1<<53 - 1, -1.5e300, "9007199254740993", []any{map[string]any{"1e9": 0.1}}}
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

const once = { queue: 'email', retry: { maxAttempts: 1 } }

test('the Go worker fails a job whose handler panics, or ends its goroutine', async () => {
  await withExample(new Example(hostile, [], stage.env()), async (example) => {
    const client = stage.client()
    const errors = {
      panic: { type: 'panic', message: 'assignment to entry in nil map' },
      goexit: { type: 'exit', message: 'the handler has ended its goroutine' },
      mute: { type: 'error', message: expect.stringContaining('PANIC') },
    }
    for (const [args, error] of Object.entries(errors)) {
      const { id } = await client.enqueue('email.send', args, once)
      await example.until(async () => (await client.getJob(id)).state === 'discarded')
      expect(await client.getJob(id)).toMatchObject({ attempt: 1, error })
    }
  })
})

test('a job that kills the Go worker is tried as often as its policy says', async () => {
  const client = stage.client()
  const retry = { maxAttempts: 2, initialIntervalMs: 100, jitter: false }
  const lease = { visibilityTimeoutMs: 500 }
  const { id } = await client.enqueue('email.send', 'exit', { queue: 'email', retry, ...lease })
  for (let run = 1; run <= 2; run++) {
    const example = new Example(hostile, [], stage.env())
    await expect(example.until(() => false)).rejects.toThrow('the example ended')
  }
  await withExample(new Example(hostile, [], stage.env()), async (example) => {
    await example.until(async () => (await client.getJob(id)).state === 'discarded')
    expect(await client.getJob(id)).toMatchObject({ attempt: 2 })
    // The others go on.
    await runJob(stage, example, { type: 'email.send', args: ['fine'] })
  })
})

test('the Go worker runs no message that a change of its job has made void', async () => {
  const client = stage.client()
  const { id: again } = await client.enqueue('email.send', 'fine', once)
  await client.cancelJob(again)
  await stage.gateway.request('POST', `/ojs/v1/admin/jobs/${again}/retry`, {})
  const { id: urgent } = await client.enqueue('email.send', 'fine', once)
  await stage.gateway.request('PATCH', `/ojs/v1/admin/jobs/${urgent}`, { priority: 9 })
  const { id: cancelled } = await client.enqueue('email.send', 'fine', once)
  await client.cancelJob(cancelled)

  const waiting = () =>
    asClient(stage, async ({ channel }) => {
      return (await channel.checkQueue('ojs.queue.email')).messageCount
    })
  await expect.poll(waiting).toBe(5)
  const example = new Example(hostile, [], stage.env())
  await withExample(example, () => example.until(async () => (await waiting()) === 0))
  // It has ended, and with that all that it had begun.
  const ran = example.output.match(/(?<=^ran ).*$/gm)
  expect(ran).toHaveLength(2)
  expect(new Set(ran)).toEqual(new Set([again, urgent]))
  for (const id of [again, urgent])
    expect(await client.getJob(id)).toMatchObject({ state: 'completed' })
})

test('the Go worker keeps a lease that is shorter than its job, and ends while a handler hangs', async () => {
  const env = { ...stage.env(), GRACE_S: '0.2' }
  await withExample(new Example(hostile, [], env), async (example) => {
    const client = stage.client()
    const lease = { queue: 'email', visibilityTimeoutMs: 600 }
    const { id } = await client.enqueue('email.send', 'wait', lease)
    const hanging = await client.enqueue('email.send', 'hang', once)
    await example.until(async () => (await client.getJob(id)).state === 'completed')
    const job = await client.getJob(id)
    expect([job.attempt, job.errors ?? []]).toEqual([1, []])
    expect(await client.getJob(hanging.id)).toMatchObject({ state: 'active' })
  })
})

test('the Go worker survives a message with an id that no claim can be about', async () => {
  await withExample(new Example(program, [], stage.env()), async (example) => {
    await publishJob(stage, { id: 'x'.repeat(300) })
    await expectUsualJobs(stage, example)
  })
})
