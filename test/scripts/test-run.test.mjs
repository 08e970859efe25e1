import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { countOf, countsOfAll } from '../../scripts/test/count.mjs'
import { needsOf, PROJECTS } from '../../scripts/test/projects.mjs'
import { withSecondTry } from '../../scripts/test/second-try.mjs'
import config from '../../vitest.config.ts'

const dir = mkdtempSync(join(tmpdir(), 'ojs-count-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

describe('the result of a vitest run', () => {
  const fileWith = (...statuses) => ({
    status: statuses.includes('failed') ? 'failed' : 'passed',
    name: 'test/a.test.ts',
    assertionResults: statuses.map((status) => ({ status, fullName: 'a b' })),
  })

  function count(exitCode, passed, failed, ...testResults) {
    const file = join(dir, 'report.json')
    const report = { numPassedTests: passed, numFailedTests: failed, testResults }
    writeFileSync(file, JSON.stringify(report))
    const { passed: ofPassed, failed: ofFailed } = countOf(file, exitCode)
    return { passed: ofPassed, failed: ofFailed }
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
    expect(countOf(join(dir, 'none.json'), 0)).toMatchObject({ passed: 0, failed: 1 })
  })

  test('counts a run that throws as a failure, and waits for the others', async () => {
    let end
    const slow = new Promise((resolve) => {
      end = resolve
    })
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    let total
    const counting = countsOfAll([slow, Promise.reject(new Error('no such Node'))]).then((sum) => {
      total = sum
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(total).toBeUndefined()
    const five = { count: { passed: 5, failed: 0, failures: [] } }
    end(five)
    await counting
    expect(total).toEqual([five, { count: { passed: 0, failed: 1, failures: [] } }])
    expect(said).toHaveBeenCalledWith(expect.stringContaining('no such Node'))
    said.mockRestore()
  })
})

describe('the second try of what failed', () => {
  const failure = (file, message = 'expected 1 to be 2') => ({ file, test: 'a b', message })
  const failed = (...failures) => ({ passed: 3, failed: failures.length, failures })
  const green = async () => ({ passed: 1, failed: 0, failures: [] })

  async function total(count, again) {
    const lines = []
    const tried = vi.fn(again)
    const sum = await withSecondTry([{ count, again: tried }], (line) => lines.push(line))
    return { ...sum, lines, tries: tried.mock.calls }
  }

  test('counts a test that passes alone, and names it', async () => {
    expect(await total(failed(failure('/r/test/a.test.ts')), green)).toEqual({
      passed: 4,
      failed: 0,
      lines: ['FLAKY, passed alone: /r/test/a.test.ts > a b: expected 1 to be 2'],
      tries: [[['/r/test/a.test.ts']]],
    })
  })

  test('leaves a test that fails again as failed, and names it', async () => {
    const red = async () => failed(failure('/r/test/a.test.ts', 'expected 1 to be 3'))
    const { lines, ...sum } = await total(failed(failure('/r/test/a.test.ts')), red)
    expect(sum).toMatchObject({ passed: 3, failed: 1 })
    expect(lines).toContain('FAILED /r/test/a.test.ts > a b: expected 1 to be 2')
  })

  test.each([
    ['a lost job of a crash test', failed(failure('/r/test/crash/a.test.ts', '1 job lost'))],
    ['five files', failed(...[1, 2, 3, 4, 5].map((n) => failure(`/r/test/${n}.test.ts`)))],
    ['a run without a report', failed({ test: 'vitest', message: 'ended' })],
    ['a file that did not load', { ...failed(failure('/r/test/a.test.ts')), failed: 2 }],
  ])('is not given to %s', async (_, count) => {
    const result = await total(count, green)
    expect(result).toMatchObject({ passed: 3, failed: count.failed, tries: [] })
  })

  test('is given to a crash test that ran out of time', async () => {
    const late = failure('/r/test/crash/a.test.ts', 'Test timed out in 240000ms.')
    expect(await total(failed(late), green)).toMatchObject({ passed: 4, failed: 0 })
  })

  test('sums up all runs', async () => {
    const count = { passed: 1, failed: 0, failures: [] }
    const broken = { count: { passed: 0, failed: 1, failures: [] } }
    const sum = await withSecondTry([{ count, again: green }, broken], () => {})
    expect(sum).toEqual({ passed: 1, failed: 1 })
  })
})

describe('a run of npm test', () => {
  test('runs every project of vitest.config.ts', () => {
    const names = config.test.projects.map(({ test }) => test.name)
    expect(new Set(PROJECTS)).toEqual(new Set(names))
  })

  const NOTHING = {
    rabbitmq: false,
    sharedNode: false,
    go: false,
    chromium: false,
    postgres: false,
  }
  const everything = {
    rabbitmq: true,
    sharedNode: true,
    go: true,
    chromium: true,
    postgres: true,
  }

  test.each([
    [[], everything],
    [['test/http'], everything],
    [['--project', 'unit'], NOTHING],
    [['--project=crash'], { ...NOTHING, rabbitmq: true }],
    [['--project', 'unit', '--project', 'services', 'x'], { ...everything, chromium: false }],
    [['--project', 'browser'], { ...everything, go: false, postgres: false }],
    [['--project', 'no-such'], everything],
  ])('with the arguments %j starts only the services that its projects need', (args, needs) => {
    expect(needsOf(args)).toEqual(needs)
  })
})
