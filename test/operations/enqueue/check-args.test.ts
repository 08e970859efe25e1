import { expect, it } from 'vitest'
import type { Deps } from '../../../src/operations/deps.ts'
import { checkArgs } from '../../../src/operations/enqueue/check-args.ts'
import { ArgsSchemas } from '../../../src/schemas/args/args-schemas.ts'
import { CostBudget } from '../../../src/schemas/args/cost-budget.ts'

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

it('checkArgs compiles a few schemas per request, fails with 503 busy, and continues at the next', async () => {
  const { deps, seen } = registered()
  const request = async () => {
    const fuel = new CostBudget()
    for (let i = 0; i < 10; i++) await checkArgs(deps, { schema: String(i), args: [] }, fuel)
  }
  const busy = expect.objectContaining({
    status: 503,
    retryable: true,
    details: { reason: 'busy' },
  })
  await expect(request()).rejects.toEqual(busy)
  expect(seen.reads).toBe(4)
  await expect(request()).rejects.toEqual(busy)
  await request()
  expect(seen.reads).toBe(10)
})

it('checkArgs does not compile the same schemas again for each job of a batch', async () => {
  const { deps, seen } = registered(SUBSCHEMAS)
  const fuel = new CostBudget()
  const batch = async () => {
    for (let i = 0; i < 1_000; i++) {
      await checkArgs(deps, { schema: String(i % 2), args: [] }, fuel)
    }
  }
  await expect(batch()).rejects.toEqual(expect.objectContaining({ status: 503 }))
  expect(seen.reads).toBe(4)
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
