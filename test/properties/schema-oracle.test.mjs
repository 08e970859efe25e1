import { registerSchema, unregisterSchema, validate } from '@hyperjump/json-schema/draft-2020-12'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { compileArgsSchema } from '../../src/schemas/args/args-schema.ts'
import { CostBudget, CostExceeded } from '../../src/schemas/args/cost-budget.ts'
import { SchemaFault } from '../../src/schemas/args/formats.ts'

const DRAFT = 'https://json-schema.org/draft/2020-12/schema'
const URI = 'https://example.test/args'

const NAME = fc.constantFrom('a', 'b', 'c', 'ab')

const VALUE = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', maxDepth: 2 },
    fc.constantFrom(null, true, 0, 1, 2, 'a', 'b', 'ab'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(NAME, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value

const SCHEMA = fc.letrec((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', maxDepth: 3, withCrossShrink: true },
    fc.constantFrom(
      ...[true, false, {}, { type: 'string' }, { const: 1 }, { type: 'array' }],
      ...[{ type: 'object' }, { minimum: 1 }, { maxItems: 1 }, { required: ['a'] }],
    ),
    { weight: 6, arbitrary: applied(tie('schema')) },
  ),
})).schema

/** At most four of the keywords that apply other schemas or refer to them. */
function applied(schema) {
  const mostlyFalse = fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, schema)
  const list = fc.array(schema, { minLength: 1, maxLength: 2 })
  const named = (name) => fc.dictionary(name, schema, { maxKeys: 2, noNullPrototype: true })
  const count = fc.nat(2)
  const reference = fc.constantFrom('#/$defs/x', '#y')
  const keywords = {
    ...{ prefixItems: list, items: schema, unevaluatedItems: mostlyFalse },
    ...{ contains: schema, minContains: count, maxContains: count },
    ...{ properties: named(NAME), patternProperties: named(fc.constantFrom('^a', 'b$')) },
    ...{ additionalProperties: schema, unevaluatedProperties: mostlyFalse },
    ...{ propertyNames: schema, dependentSchemas: named(NAME) },
    ...{ allOf: list, anyOf: list, oneOf: list, not: schema },
    ...Object.fromEntries(['if', 'then', 'else'].map((keyword) => [keyword, schema])),
    ...{ $ref: reference, $dynamicRef: reference },
  }
  const chosen = fc.subarray(Object.keys(keywords), { maxLength: 4 })
  return chosen.chain((keys) =>
    fc.record(Object.fromEntries(keys.map((key) => [key, keywords[key]]))),
  )
}

/** The seed is fixed, because the other validator has bugs, too. Ours that it found: args-schema.test.ts. */
it('random schemas accept the same values as with another validator', {
  timeout: 120_000,
}, async () => {
  let compared = 0
  const document = fc.record({ schema: SCHEMA, x: SCHEMA, y: SCHEMA })
  const samples = fc.array(fc.array(VALUE, { maxLength: 3 }), { minLength: 4, maxLength: 8 })
  const property = fc.asyncProperty(document, samples, async ({ schema, x, y }, lists) => {
    const args = { allOf: [schema], $defs: { x, y: { $dynamicAnchor: 'y', allOf: [y] } } }
    const ours = compiled(args)
    if (ours === null) return
    unregisterSchema(URI)
    registerSchema({ $schema: DRAFT, ...args }, URI)
    const theirs = await validate(URI)
    for (const list of lists) {
      const wanted = unlessEndless(() => theirs(list).valid)
      const found = unlessEndless(() => ours.violations(list, new CostBudget()) === null)
      if (wanted === null || found === null) continue
      expect([list, found]).toEqual([list, wanted])
      compared++
    }
  })
  await fc.assert(property, { numRuns: 1000, seed: 20_261_125 })
  expect(compared).toBeGreaterThan(2000)
})

function compiled(schema) {
  try {
    return compileArgsSchema(schema)
  } catch (error) {
    if (error instanceof SchemaFault) return null
    throw error
  }
}

/** Null for a schema that refers to itself without end, which only one of the validators may notice. */
function unlessEndless(check) {
  try {
    return check()
  } catch (error) {
    if (error instanceof RangeError || error instanceof CostExceeded) return null
    throw error
  }
}
