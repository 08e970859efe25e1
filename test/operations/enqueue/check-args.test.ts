import { describe, expect, it, vi } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import type { Deps } from '../../../src/operations/deps.ts'
import { ArgsChecks, checkArgs } from '../../../src/operations/enqueue/check-args.ts'
import { ArgsSchemas } from '../../../src/schemas/args/args-schemas.ts'
import { deferred } from '../../support/time/deferred.ts'

const SUBSCHEMAS = 300
const LARGE = { prefixItems: Array(SUBSCHEMAS - 1).fill(true) }

/** Any number is the URI of a registered schema; `reads` counts how often a schema was compiled. */
function registered(capacity?: number, schema: object = LARGE) {
  const content = JSON.stringify(schema)
  const seen = { reads: 0 }
  const read = async () => {
    seen.reads += 1
    return content
  }
  const deps = {
    ledger: { known: { schemas: { registration: Number } }, read: { schemas: { content: read } } },
    argsSchemas: new ArgsSchemas(capacity),
    settings: { schemaStrict: false },
  } as unknown as Pick<Deps, 'ledger' | 'argsSchemas' | 'settings'>
  return { deps, seen }
}

it.each([
  ['refuses a schema that is not registered', 'https://example.com/none', true],
  ['accepts a built-in schema of OJS', 'https://openjobspec.org/schemas/v1/job.schema.json', false],
])('checkArgs with OJS_SCHEMA_STRICT %s', (_, schema, isRefused) => {
  const { deps } = registered()
  const strict = {
    ...deps,
    ledger: { known: { schemas: { registration: () => null } } },
    settings: { schemaStrict: true },
  } as unknown as typeof deps
  const check = () => checkArgs(strict, { schema, args: [] })
  if (isRefused) expect(check).toThrow('not registered')
  else expect(check).not.toThrow()
})

it('a request may name more schemas than the cache has room for, and compiles each once', async () => {
  const { deps, seen } = registered(2 * SUBSCHEMAS)
  const checks = new ArgsChecks(deps, 100)
  for (let i = 0; i < 100; i++) checks.add({ schema: String(i % 10), args: [] }, i)
  await checks.rest()
  expect(seen.reads).toBe(10)
})

it('one request at a time compiles many schemas; others are told to repeat, or compile few', async () => {
  const { deps } = registered(undefined, { ...LARGE, items: false })
  const request = async (first: number, count: number, last: unknown[] = []) => {
    const checks = new ArgsChecks(deps, count)
    for (let i = 0; i < count; i++) {
      checks.add({ schema: String(first + i), args: i === count - 1 ? last : [] }, i)
    }
    await checks.rest()
  }
  const { argsSchemas, ledger } = deps
  const isOver = deferred()
  const content = ledger.read.schemas.content.bind(ledger.read.schemas)
  // The last schema of the long request is read when the others have been refused.
  vi.spyOn(ledger.read.schemas, 'content').mockImplementation(async (registration) => {
    if (registration === 9) await isOver.promise
    return await content(registration)
  })
  const beginLong = argsSchemas.beginLong.bind(argsSchemas)
  const begun = new Promise<void>((resolve) => {
    vi.spyOn(argsSchemas, 'beginLong').mockImplementationOnce(() => {
      resolve()
      return beginLong()
    })
  })
  const long = request(0, 10)
  await begun
  const busy = { status: 503, retryable: true, details: { reason: 'busy' } }
  await expect(request(100, 10)).rejects.toEqual(expect.objectContaining(busy))
  await request(200, 3)
  isOver.resolve()
  await long
  await request(300, 10)
  await expect(request(400, 10, Array(SUBSCHEMAS))).rejects.toMatchObject({ status: 400 })
  await request(500, 10)
})

it('no two schemas are compiled in one turn of the event loop, for however many requests', async () => {
  const { deps } = registered()
  let turn = 0
  let isOver = false
  const count = () => {
    turn += 1
    if (!isOver) setImmediate(count)
  }
  count()
  const turns: number[] = []
  const add = deps.argsSchemas.add.bind(deps.argsSchemas)
  vi.spyOn(deps.argsSchemas, 'add').mockImplementation((...of) => {
    turns.push(turn)
    return add(...of)
  })
  const jobs = Array.from({ length: 6 }, (_, i) => ({ schema: String(i), args: [] }))
  const checks = new ArgsChecks(deps, jobs.length)
  for (const [i, job] of jobs.entries()) checks.add(job, i)
  const singles = jobs.map(({ schema, args }) => checkArgs(deps, { schema: `1${schema}`, args }))
  await Promise.all([checks.rest(), ...singles])
  isOver = true
  expect(new Set(turns).size).toBe(12)
})

describe('of several jobs at fault', () => {
  const jobs = [
    { schema: '1', args: [] },
    { schema: '2', args: [''] },
    { schema: '1', args: [''] },
  ]
  const explain = (error: OjsError, place: number) => error.withDetails({ place })

  it.each([
    ['none is compiled', []],
    ['the first schema is compiled', ['1']],
    ['the second schema is compiled', ['2']],
  ])('the first one of the request is told if %s', async (_, compiled) => {
    const { deps } = registered(undefined, { items: false })
    for (const schema of compiled) await checkArgs(deps, { schema, args: [] })
    const checks = new ArgsChecks(deps, jobs.length, explain)
    for (const [place, job] of jobs.entries()) {
      try {
        checks.add(job, place)
      } catch (error) {
        checks.fail(error, place)
        break
      }
    }
    const details = { place: 1, schema: '2' }
    await expect((async () => await checks.rest())()).rejects.toMatchObject({ details })
  })

  it.each([
    [0, 'other'],
    [1, 'args'],
    [2, 'args'],
  ])('another fault of job %i counts by its place: %s', async (place, field) => {
    const { deps } = registered(undefined, { items: false })
    const checks = new ArgsChecks(deps, jobs.length, explain)
    for (const [i, job] of jobs.slice(0, 2).entries()) checks.add(job, i)
    checks.fail(new OjsError('invalid_request', '', { details: { field: 'other' } }), place)
    const details = { place: Math.min(place, 1), field }
    await expect(checks.rest()).rejects.toMatchObject({ details })
  })
})

it('a job behind the first one at fault is not checked any more, nor its schema compiled', async () => {
  const { deps, seen } = registered(undefined, { items: false })
  const checks = new ArgsChecks(deps, 5, (error, place) => error.withDetails({ place }))
  const bad = ['']
  for (const [place, [schema, args]] of Object.entries([
    ['1', []],
    ['2', []],
    ['1', bad],
    ['2', bad],
    ['3', bad],
  ] as const)) {
    checks.add({ schema, args }, Number(place))
  }
  await expect(checks.rest()).rejects.toMatchObject({ details: { place: 2 } })
  expect(seen.reads).toBe(2)
})

it.each([
  ['registered anew meanwhile is checked by the new one', 2],
  ['not found by the first read is checked by the second', 1],
])('a job whose schema is %s', async (_, later) => {
  const { deps } = registered(undefined, { items: false })
  let [registration, reads] = [1, 0]
  const read = async () => {
    registration = later
    reads += 1
    return reads === 1 ? null : JSON.stringify({ items: false })
  }
  const anew = {
    ...deps,
    ledger: {
      known: { schemas: { registration: () => registration } },
      read: { schemas: { content: read } },
    },
  } as unknown as typeof deps
  await expect(checkArgs(anew, { schema: '1', args: [1] })).rejects.toMatchObject({ status: 400 })
  await checkArgs(anew, { schema: '1', args: [] })
})

it('checkArgs compiles any number of large schemas for single jobs', async () => {
  const { deps, seen } = registered(1)
  for (let i = 0; i < 10; i++) await checkArgs(deps, { schema: String(i), args: [] })
  expect(seen.reads).toBe(10)
})

it('checkArgs refuses a schema that can no longer be compiled as unusable and not retryable', async () => {
  const { deps } = registered(undefined, { items: { properties: { a: { pattern: '(?i)a' } } } })
  const problem = { status: 400, code: 'schema_validation', retryable: false }
  await expect(checkArgs(deps, { schema: '1', args: [{ a: 0 }] })).rejects.toEqual(
    expect.objectContaining({
      ...problem,
      details: { field: 'args', schema: '1', reason: 'unusable' },
    }),
  )
})
