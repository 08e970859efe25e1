import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Gateway } from '../support/gateway.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'
import { KNOWN_FAILURES } from './known.ts'
import { type CaseResult, findCases, runCases, whereCasesShouldBe } from './suite.ts'

/** The cases take this long by themselves: many of them wait for delays and timeouts. */
const RUN_TIMEOUT_MS = 120_000

/** Every case, one after the other, on one gateway with this profile. */
export function describeConformance(queueType: 'classic' | 'quorum'): void {
  const cases = findCases()
  if (cases === undefined) {
    // Where the project is developed a missing suite must not look like a passed one.
    test.skipIf(!process.env['CI'])(`the public cases are in ${whereCasesShouldBe}`, () => {
      expect.fail('they are not')
    })
    process.stderr.write(`Conformance cases skipped: there is no ${whereCasesShouldBe}\n`)
  } else {
    describe(`OJS_QUEUE_TYPE=${queueType}`, () => runOn(queueType, cases))
  }
}

function runOn(queueType: string, paths: readonly string[]): void {
  let vhost: Vhost | undefined
  let gateway: Gateway | undefined
  let results = new Map<string, CaseResult>()

  beforeAll(async () => {
    vhost = await createVhost()
    gateway = await Gateway.start({ amqpUrl: vhost.url, env: { OJS_QUEUE_TYPE: queueType } })
    results = await runCases(gateway.url)
  }, RUN_TIMEOUT_MS)

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
