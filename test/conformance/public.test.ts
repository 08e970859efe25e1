import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DIALECTS, type Dialect } from '../../src/dialect.ts'
import { createVhost, type Vhost } from '../support/broker/rabbit.ts'
import { type EnvelopeWatch, watchEnvelopes } from '../support/checker/envelope-watch.ts'
import { Gateway } from '../support/gateway/gateway.ts'
import { KNOWN_FAILURES } from './known.ts'
import { type CaseResult, findCases, runCases, waitOf, whereCasesShouldBe } from './suite.ts'

/** Two cases of cron wait for full minutes, 195 s in all; other tests keep the machine busy. */
const RUN_TIMEOUT_MS = 600_000
const LONG_WAIT_MS = 30_000
/** How often a case may run in all; see `runOn`. */
const TRIES = 3

/** Some cases leave a job alone for a minute. No case relies on the default of 30 s of seed 001. */
const TIMEOUTS = { OJS_VISIBILITY_TIMEOUT_MS: '120000', OJS_TIMEOUT_MS: '120000' }
/** One case wants the headers of a request limit (seed 001 §18.3), which are sent where there is a limit. */
const REQUEST_LIMIT = { OJS_RATE_LIMIT: '1000000/60s' }

interface Run {
  dialect: Dialect
  queueType: 'classic' | 'quorum'
}

/** All runs are concurrent in this one file, since they share a broker and mostly wait. */
const RUNS: readonly Run[] = DIALECTS.flatMap((dialect) =>
  (['classic', 'quorum'] as const).map((queueType) => ({ dialect, queueType })),
)

const cases = findCases()
if (cases === undefined) {
  // In CI a missing suite must not look like a passed one.
  test.skipIf(!process.env['CI'])(`the public cases are in ${whereCasesShouldBe}`, () => {
    expect.fail('they are not')
  })
  process.stderr.write(`Conformance cases skipped: there is no ${whereCasesShouldBe}\n`)
} else {
  runAll(cases)
}

function runAll(paths: readonly string[]): void {
  const gateways: Gateway[] = []
  const results = new Map<Run, Map<string, CaseResult>>()
  const watches = new Map<Run, EnvelopeWatch>()
  let vhost: Vhost

  beforeAll(async () => {
    vhost = await createVhost()
    const done = RUNS.map(async (run) => {
      const gateway = await start(vhost, run)
      gateways.push(gateway)
      const watch = await watchEnvelopes(gateway.url)
      watches.set(run, watch)
      results.set(run, await runOn(run, watch, casesOf(run, paths)))
    })
    await Promise.all(done)
  }, RUN_TIMEOUT_MS)

  afterAll(async () => {
    for (const watch of watches.values()) watch.close()
    await Promise.all(gateways.map((gateway) => gateway.dispose()))
    await vhost?.drop()
  })

  for (const run of RUNS) {
    describe(`OJS_DIALECT=${run.dialect} OJS_QUEUE_TYPE=${run.queueType}`, () => {
      judge(run, casesOf(run, paths), (path) => results.get(run)?.get(path))

      test('every job in every answer is an envelope by seed 003', () => {
        const watch = watches.get(run)
        expect(watch?.complaints).toEqual([])
        expect(watch?.seen).toBeGreaterThan(100)
      })
    })
  }
}

/** Cases that wait for minutes are about cron, which does not depend on the queue type: one run each. */
function casesOf({ queueType }: Run, paths: readonly string[]): readonly string[] {
  return queueType === 'classic' ? paths : paths.filter((path) => !isLong(path))
}

function isLong(path: string): boolean {
  return waitOf(path) > LONG_WAIT_MS
}

/** Starts a gateway. All four share a vhost and are separated by their prefix. */
function start(vhost: Vhost, { dialect, queueType }: Run): Promise<Gateway> {
  return Gateway.start({
    amqpUrl: vhost.url,
    env: {
      ...TIMEOUTS,
      ...REQUEST_LIMIT,
      OJS_PREFIX: `${dialect}-${queueType}`,
      OJS_DIALECT: dialect,
      OJS_QUEUE_TYPE: queueType,
    },
  })
}

/**
 * Some cases depend on short times: one has 1 s from a heartbeat to the end of its lease, others look 200 ms
 * after a retry is due. Failed cases therefore run again; a fault of the gateway fails each time.
 */
async function runOn(
  run: Run,
  watch: EnvelopeWatch,
  paths: readonly string[],
): Promise<Map<string, CaseResult>> {
  const results = await runSideBySide(watch, paths)
  const hasFailed = (path: string) =>
    results.get(path)?.status === 'failed' && !(path in KNOWN_FAILURES[run.dialect])
  for (let i = 1; i < TRIES; i++) {
    const failed = paths.filter(hasFailed)
    if (failed.length === 0) break
    for (const path of failed) {
      const what = `${run.dialect}, ${run.queueType}: ${path} ${outcome(results.get(path))}`
      process.stdout.write(`  once more: ${what}\n`)
    }
    for (const [path, result] of await runSideBySide(watch, failed)) results.set(path, result)
  }
  return results
}

/** Runs the cases one after the other, and each long one concurrently to all others. */
async function runSideBySide(
  watch: EnvelopeWatch,
  paths: readonly string[],
): Promise<Map<string, CaseResult>> {
  const long = paths.filter(isLong)
  const others = paths.filter((path) => !isLong(path))
  const groups = [...long.map((path) => [path]), others].filter(({ length }) => length > 0)
  const results = await Promise.all(groups.map((group) => runCases(watch.url, group)))
  return new Map(results.flat().map((result) => [result.file, result]))
}

function judge(
  run: Run,
  paths: readonly string[],
  resultOf: (path: string) => CaseResult | undefined,
): void {
  for (const path of paths) {
    const reason = KNOWN_FAILURES[run.dialect][path]
    if (reason === undefined) {
      test(path, () => expect(outcome(resultOf(path))).toBe('passed'))
    } else {
      test(`${path} fails as listed (${reason})`, () => {
        expect(outcome(resultOf(path)), 'passes: take it out of known.ts').toMatch(/^failed/)
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
