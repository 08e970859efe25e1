import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { countOf, sumOfAll } from '../../scripts/test/count.mjs'
import { needsOf, PROJECTS } from '../../scripts/test/projects.mjs'
import config from '../../vitest.config.ts'

const dir = mkdtempSync(join(tmpdir(), 'ojs-count-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

describe('the result of a vitest run', () => {
  const fileWith = (...statuses) => ({
    status: statuses.includes('failed') ? 'failed' : 'passed',
    assertionResults: statuses.map((status) => ({ status })),
  })

  function count(exitCode, passed, failed, ...testResults) {
    const file = join(dir, 'report.json')
    const report = { numPassedTests: passed, numFailedTests: failed, testResults }
    writeFileSync(file, JSON.stringify(report))
    return countOf(file, exitCode)
  }

  test('counts the tests that passed and failed', () => {
    expect(count(0, 2, 0, fileWith('passed', 'passed'))).toEqual({ passed: 2, failed: 0 })
    expect(count(1, 1, 1, fileWith('passed', 'failed'))).toEqual({ passed: 1, failed: 1 })
  })

  test('counts a file that could not be loaded as a failure', () => {
    const broken = { status: 'failed', assertionResults: [] }
    expect(count(1, 1, 0, fileWith('passed'), broken)).toEqual({ passed: 1, failed: 1 })
  })

  test('counts an unhandled error, an empty run and a crash as a failure each', () => {
    expect(count(1, 1, 0, fileWith('passed'))).toEqual({ passed: 1, failed: 1 })
    expect(count(0, 0, 0)).toEqual({ passed: 0, failed: 1 })
    expect(countOf(join(dir, 'none.json'), 0)).toEqual({ passed: 0, failed: 1 })
  })

  test('is the sum of runs side by side', async () => {
    const runs = [
      Promise.resolve({ passed: 1, failed: 2 }),
      Promise.resolve({ passed: 3, failed: 4 }),
    ]
    expect(await sumOfAll(runs)).toEqual({ passed: 4, failed: 6 })
  })

  test('counts a run that throws as a failure, and waits for the others', async () => {
    let end
    const slow = new Promise((resolve) => {
      end = resolve
    })
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    let total
    const counting = sumOfAll([slow, Promise.reject(new Error('no such Node'))]).then((sum) => {
      total = sum
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(total).toBeUndefined()
    end({ passed: 5, failed: 0 })
    await counting
    expect(total).toEqual({ passed: 5, failed: 1 })
    expect(said).toHaveBeenCalledWith(expect.stringContaining('no such Node'))
    said.mockRestore()
  })
})

describe('a run of npm test', () => {
  test('runs every project of vitest.config.ts', () => {
    const names = config.test.projects.map(({ test }) => test.name)
    expect(new Set(PROJECTS)).toEqual(new Set(names))
  })

  const everything = { rabbitmq: true, sharedNode: true, go: true }

  test.each([
    [[], everything],
    [['test/http'], everything],
    [['--project', 'unit'], { rabbitmq: false, sharedNode: false, go: false }],
    [['--project=crash'], { rabbitmq: true, sharedNode: false, go: false }],
    [['--project', 'unit', '--project', 'services', 'x'], everything],
    [['--project', 'no-such'], everything],
  ])('with the arguments %j starts only the services that its projects need', (args, needs) => {
    expect(needsOf(args)).toEqual(needs)
  })
})
