import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Gateway } from '../support/gateway.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'
import { KNOWN_FAILURES } from './known.ts'
import { type CaseResult, findCases, runCases, whereCasesShouldBe } from './suite.ts'

const FOLDER = 'level-0-core'
const cases = findCases(FOLDER)

if (cases === undefined) {
  // Where the project is developed a missing suite must not look like a passed one.
  test.skipIf(!process.env['CI'])(`the public cases are in ${whereCasesShouldBe}`, () => {
    expect.fail('they are not')
  })
  process.stderr.write(`Conformance cases skipped: there is no ${whereCasesShouldBe}\n`)
} else {
  describe.each(['classic', 'quorum'])('OJS_QUEUE_TYPE=%s', (queueType) => runOn(queueType, cases))

  test('known failures are cases that exist', () => {
    const listed = Object.keys(KNOWN_FAILURES).filter((path) => path.startsWith(FOLDER))
    expect(cases).toEqual(expect.arrayContaining(listed))
  })
}

test('every known failure has a reason', () => {
  const reasons = Object.values(KNOWN_FAILURES)
  expect(reasons).toEqual(reasons.map(() => expect.stringMatching(/\S+ \S+/)))
})

function runOn(queueType: string, paths: readonly string[]): void {
  let vhost: Vhost | undefined
  let gateway: Gateway | undefined
  let results = new Map<string, CaseResult>()

  beforeAll(async () => {
    vhost = await createVhost()
    gateway = await Gateway.start({ amqpUrl: vhost.url, env: { OJS_QUEUE_TYPE: queueType } })
    results = await runCases(gateway.url, FOLDER)
  })

  afterAll(async () => {
    await gateway?.dispose()
    await vhost?.drop()
  })

  for (const path of paths) {
    const reason = KNOWN_FAILURES[path]
    if (reason === undefined) {
      test(path, () => expect(outcome(results.get(path))).toBe('passed'))
    } else {
      test(`${path} fails as listed (${reason})`, () => {
        expect(outcome(results.get(path)), 'passes: take it out of known.ts').toMatch(/^failed/)
      })
    }
  }
}

/** `passed`, or what went wrong where. */
function outcome(result: CaseResult | undefined): string {
  if (result === undefined) return 'did not run'
  const { failure, status } = result
  return failure ? `${status} at ${failure.step ?? 'start'}: ${failure.message}` : status
}
