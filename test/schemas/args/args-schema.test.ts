import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { compileArgsSchema, type Violation } from '../../../src/schemas/args/args-schema.ts'
import { CostBudget, CostExceeded, stepsFor } from '../../../src/schemas/args/cost-budget.ts'
import { SchemaFault } from '../../../src/schemas/args/formats.ts'

const DRAFT = 'https://json-schema.org/draft/2020-12/schema'

type Schema = Record<string, unknown>

function check(schema: Schema, args: unknown[], budget = new CostBudget()): Violation[] | null {
  return compileArgsSchema(schema).violations(args, budget)
}

/** A chain of definitions, each of which uses the previous one twice. */
function doubling(keyword: string, length: number): Schema {
  const entries = Array.from({ length }, (_, i) => {
    const $ref = `#/$defs/d${i - 1}`
    return [`d${i}`, i === 0 ? { type: 'string' } : { [keyword]: [{ $ref }, { $ref }] }]
  })
  return { prefixItems: [{ $ref: `#/$defs/d${length - 1}` }], $defs: Object.fromEntries(entries) }
}

/** A chain of references, each of which passes on the names of the evaluated members. */
function handedOn(length: number): Schema {
  const entries = Array.from({ length }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }])
  const $defs = {
    ...Object.fromEntries(entries),
    [`d${length}`]: { patternProperties: { '': true } },
  }
  return { items: { $ref: '#/$defs/d0', unevaluatedProperties: false }, $defs }
}

function members(count: number): object {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 1]))
}

function nested(depth: number): unknown[] {
  return depth === 0 ? [] : [nested(depth - 1)]
}

/** Parses JSON text, because a literal cannot have an own member `__proto__`. */
function parsed(text: string): Schema {
  return JSON.parse(text)
}

describe('an args schema', () => {
  it.each<[string, Schema, unknown[], unknown[]]>([
    ['type', { items: { type: 'string' } }, ['a'], [1]],
    ['the declared draft', { $schema: DRAFT, maxItems: 1 }, [1], [1, 2]],
    ['a tuple', { prefixItems: [{ type: 'string' }], items: false }, ['a'], ['a', 1]],
    ['a definition', { items: { $ref: '#/$defs/n' }, $defs: { n: { type: 'null' } } }, [null], [1]],
    [
      'an escaped pointer',
      { items: { $ref: '#/$defs/a~1b%25' }, $defs: { 'a/b%': { const: 1 } } },
      [1],
      [2],
    ],
    [
      'a constant',
      { items: { const: { a: [1, null], b: 2 } } },
      [{ b: 2, a: [1, null] }],
      [{ a: [1, null] }],
    ],
    [
      'an object as a constant, without more members',
      { items: { const: { a: { b: 1 } } } },
      [{ a: { b: 1 } }],
      [{ a: { b: 1, c: 1 } }],
    ],
    ['a constant that is null', { items: { const: null } }, [null], [0]],
    ['an empty constant', { items: { const: {} } }, [{}], [[]]],
    ['an empty array as a constant', { items: { const: [] } }, [[]], [{}]],
    ['an array as a constant', { items: { const: [1, 2] } }, [[1, 2]], [[1, 3]]],
    ['an array as a constant, which null is not', { items: { const: [1] } }, [[1]], [null]],
    ['a number as a constant, which an object is not', { items: { const: 1 } }, [1], [{}]],
    [
      'an array as a constant, which a longer array is not',
      { items: { const: [1] } },
      [[1]],
      [[1, 1]],
    ],
    [
      'a number among several types',
      { items: { enum: [1, 'a', [2], { b: null }] } },
      [{ b: null }, [2], 'a', 1],
      [{ b: 0 }],
    ],
    ['an anchor', { items: { $ref: '#n' }, $defs: { x: { $anchor: 'n', const: 1 } } }, [1], [2]],
    [
      'its own $id',
      { $id: 'urn:s:1', items: { $ref: 'urn:s:1#/$defs/n' }, $defs: { n: false } },
      [],
      [1],
    ],
    ['recursion', { items: { $ref: '#' }, maxItems: 1 }, nested(20), [[[], []]]],
    [
      'a dynamic anchor',
      { $dynamicAnchor: 'n', items: { $dynamicRef: '#n' }, maxItems: 1 },
      nested(5),
      [[[], []]],
    ],
    [
      'a dynamic anchor in a definition',
      {
        items: { $dynamicRef: '#n', $ref: '#/$defs/few' },
        $defs: { x: { $dynamicAnchor: 'n', type: 'array' }, few: { maxItems: 1 } },
      },
      [[1]],
      [1],
    ],
    [
      'an anchor at the top',
      { $anchor: 'n', items: { $ref: '#n' }, maxItems: 1 },
      [[]],
      [[[], []]],
    ],
    [
      'an anchor in a definition whose name has to be escaped',
      {
        items: { $ref: '#n' },
        $defs: { 'a/#%é\ud800': true, 'a/#%é': { $anchor: 'n', const: 1 } },
      },
      [1],
      [2],
    ],
    ['a pattern', { items: { pattern: '^\\p{Lu}\\u00e9+$' } }, ['Zé'], ['ze']],
    [
      'two patterns',
      { prefixItems: [{ pattern: '^a' }, { pattern: '^b' }] },
      ['a', 'b'],
      ['a', 'a'],
    ],
    [
      'patternProperties',
      { items: { patternProperties: { '^n': { type: 'number' } } } },
      [{ n1: 1 }],
      [{ n1: '' }],
    ],
    [
      'uniqueItems',
      { uniqueItems: true },
      [1, '1', [1], { a: 1, b: 2 }],
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
    ],
    ['uniqueItems: false', { uniqueItems: false, maxItems: 2 }, [1, 1], [1, 1, 1]],
    [
      'multipleOf of cents',
      { items: { multipleOf: 0.01 } },
      [1.15, 0.07, -4.35, 1e12, -0, 0.3],
      [0.005],
    ],
    [
      'multipleOf to a sum that is not exactly a multiple of cents',
      { items: { multipleOf: 0.01 } },
      [0.3],
      [0.1 + 0.2],
    ],
    [
      'multipleOf with a large divisor',
      { items: { multipleOf: 1e10 } },
      [0, 1e10, -3e10, 1e22],
      [5],
    ],
    [
      'multipleOf of whole days',
      { items: { multipleOf: 86_400e9 } },
      [3 * 86_400e9],
      [3 * 86_400e9 + 5],
    ],
    ['multipleOf to a number of 19 digits', { items: { multipleOf: 3 } }, [3e18, 0], [1e18]],
    ['multipleOf whose quotient overflows', { items: { multipleOf: 0.123_456_789 } }, [0], [1e308]],
    ['multipleOf to a very small number', { items: { multipleOf: 0.5 } }, [2.5], [1e-10]],
    [
      'multipleOf with a very small divisor',
      { items: { multipleOf: 1e-8 } },
      [12_391_239_123, 1e-8, 1e300],
      [1e-9],
    ],
    [
      'multipleOf with a divisor of more decimals than a power of ten is exact for',
      { items: { multipleOf: 3.64520140242e-15 } },
      [3.64520140242e-12],
      [3.2114224355320205e-12],
    ],
    [
      'multipleOf to numbers of more than 15 digits',
      { items: { multipleOf: 101_528_848_297_310 } },
      [5.208429917652003e16],
      [5.208429917652004e16],
    ],
    ['multipleOf to a large negative number', { items: { multipleOf: 18 } }, [-9e24], [-1e24]],
    ['multipleOf to less than a very large divisor', { items: { multipleOf: 1e18 } }, [3e18], [6]],
    [
      'unevaluatedProperties',
      { items: { allOf: [{ properties: { a: true } }], unevaluatedProperties: false } },
      [{ a: 1 }],
      [{ b: 1 }],
    ],
    [
      'unevaluatedProperties to a member with an inherited name',
      { items: { properties: { a: true }, unevaluatedProperties: false } },
      [{ a: 1 }],
      [{ constructor: 1 }],
    ],
    [
      'unevaluatedProperties to a member with an inherited name that is evaluated elsewhere',
      { items: { anyOf: [{ properties: { toString: true } }], unevaluatedProperties: false } },
      [{ toString: 1 }],
      [{ toString: 1, valueOf: 1 }],
    ],
    [
      'unevaluatedProperties to an evaluated member __proto__',
      { items: { patternProperties: { '^_': true }, unevaluatedProperties: false } },
      [parsed('{"__proto__": 1}')],
      [parsed('{"__proto__": 1, "a": 1}')],
    ],
    [
      'unevaluatedProperties to an unevaluated member __proto__',
      { items: { properties: { a: true }, unevaluatedProperties: false } },
      [{ a: 1 }],
      [parsed('{"__proto__": 1}')],
    ],
    ['contains', { contains: { const: 1 } }, [2, 1], []],
    ['contains beside an empty tuple', { prefixItems: [true, {}], contains: true }, [1], []],
    ['contains to each of several arrays', { items: { contains: { const: 1 } } }, [[1]], [[1], []]],
    ['minContains', { contains: { const: 1 }, minContains: 2 }, [1, 2, 1], [1, 2]],
    ['maxContains', { contains: { const: 1 }, maxContains: 1 }, [1, 2], [1, 2, 1]],
    ['minContains: 0', { contains: { const: 1 }, minContains: 0, maxContains: 1 }, [], [1, 1]],
    [
      'unevaluatedItems: false to what a tuple leaves',
      { prefixItems: [true], unevaluatedItems: false },
      [1],
      [1, 2],
    ],
    [
      'unevaluatedItems to what a tuple leaves',
      { allOf: [{ prefixItems: [true] }], unevaluatedItems: { type: 'string' } },
      [1, 'a', 'b'],
      [1, 'a', 2],
    ],
    [
      'unevaluatedItems to what a tuple that does not match leaves',
      { anyOf: [{ prefixItems: [{ const: 1 }] }, true], unevaluatedItems: { type: 'string' } },
      [1, 'a'],
      [2],
    ],
    [
      'unevaluatedItems without the items of an if that fails',
      { if: { maxItems: 1 }, else: { items: true }, unevaluatedItems: false },
      [1, 2],
      [1],
    ],
    [
      'unevaluatedProperties without the names of an if that fails',
      {
        items: {
          if: { patternProperties: { '^a': { type: 'string' } } },
          unevaluatedProperties: false,
        },
      },
      [{ ab: 'x' }],
      [{ ab: 1 }],
    ],
    [
      'unevaluatedProperties without the names of an else that is not reached',
      {
        items: {
          patternProperties: { '^a': true },
          if: { type: 'object' },
          else: { patternProperties: { '^c': true } },
          unevaluatedProperties: false,
        },
      },
      [{ a: 0 }],
      [{ c: 0 }],
    ],
    ['anyOf', { items: { anyOf: [{ type: 'string' }, { minimum: 5 }] } }, ['a', 5], [4]],
    [
      'properties to own members only',
      { items: { properties: { constructor: { type: 'string' } } } },
      [{}],
      [{ constructor: 1 }],
    ],
    [
      'required to own members only',
      { items: { required: ['toString'] } },
      [{ toString: 1 }],
      [{}],
    ],
    ["required to a member ''", { items: { required: ['a', ''] } }, [{ a: 1, '': 2 }], [{ a: 1 }]],
    [
      "dependentRequired with a member '' that is required",
      { items: { dependentRequired: { a: ['b', ''], '': ['b'] } } },
      [{ a: 1, b: 2, '': 3 }, { c: 1 }],
      [{ a: 1, b: 2 }],
    ],
    [
      "dependentRequired of a member ''",
      { items: { dependentRequired: { '': ['b'] } } },
      [{ b: 1, '': 2 }, { a: 1 }],
      [{ '': 1 }],
    ],
    [
      'dependentRequired to objects only',
      { items: { dependentRequired: { length: ['unit'] } } },
      ['text', ['item'], { length: 1, unit: 'm' }],
      [{ length: 1 }],
    ],
    [
      'dependentRequired to own members only',
      { items: { dependentRequired: { a: ['toString'], constructor: ['c'] } } },
      [{ a: 1, toString: 1 }, { b: 1 }],
      [{ a: 1 }],
    ],
    [
      'the other keywords beside one that it does not know',
      { id: 'x', nullable: true, items: { 'x-y': 1, type: 'null' } },
      [null],
      [1],
    ],
  ])('applies %s', (_, schema, good, bad) => {
    expect(check(schema, good)).toBeNull()
    expect(check(schema, bad)).not.toBeNull()
  })

  it.each<[string, Schema, RegExp]>([
    ['another draft', { $schema: 'http://json-schema.org/draft-07/schema#' }, /draft 2020-12/],
    ['a draft that is not a string', { $schema: 2020 }, /draft 2020-12/],
    ['an unknown type', { type: 'text' }, /^type must be/],
    ["draft-07's tuples", { items: [{ type: 'string' }] }, /^items must be/],
    [
      'a wrong keyword in a definition',
      { $defs: { a: { minLength: -1 } } },
      /^\$defs\.a\.minLength must be/,
    ],
    ['a remote reference', { $ref: 'https://example.com/a.json' }, /must stay inside.*not fetched/],
    ['a file', { $ref: 'file:///etc/passwd' }, /must stay inside/],
    ['a relative reference', { $ref: 'other.json#/a' }, /must stay inside/],
    ['the meta-schema', { $ref: DRAFT }, /must stay inside/],
    ['a reference to nothing', { $ref: '#/$defs/a' }, /points to nothing/],
    [
      'a reference to an unknown keyword',
      { x: { type: 'null' }, $ref: '#/x' },
      /points to nothing/,
    ],
    ['a broken pointer', { $ref: '#/%zz' }, /points to nothing/],
    ['a dynamic reference to nothing', { $dynamicRef: '#a' }, /points to nothing/],
    ['an $id in a definition', { $defs: { a: { $id: 'urn:a' } } }, /\$id below the top/],
    [
      'references that Ajv cannot distinguish',
      { contains: { const: 1 }, unevaluatedItems: { type: 'string' } },
      /contains and unevaluatedItems/,
    ],
    [
      'the same anchor twice',
      { $defs: { a: { $anchor: 'x' }, b: { $anchor: 'x' } } },
      /more than once/,
    ],
    ['a look-ahead', { items: { pattern: '(?=a)' } }, /'\(\?=a\)' cannot be used/],
    ['a back-reference', { items: { pattern: '(a)\\1' } }, /cannot be used/],
    ['a broken pattern', { items: { pattern: '[' } }, /cannot be used/],
    ['a broken pattern of names', { patternProperties: { '(': true } }, /cannot be used/],
    ['a reference to itself', { $ref: '#' }, /refers to itself without end/],
  ])('is refused for %s', (_, schema, reason) => {
    const compile = () => compileArgsSchema(schema)
    expect(compile).toThrow(SchemaFault)
    expect(compile).toThrow(reason)
  })

  it('says what is wrong, and where', () => {
    const schema: Schema = {
      prefixItems: [
        {
          type: 'object',
          required: ['n'],
          additionalProperties: false,
          properties: { n: { maximum: 3 } },
        },
      ],
    }
    expect(check(schema, [{ n: 4 }])).toEqual([
      {
        path: 'args[0].n',
        message: 'must be <= 3',
        schema_path: '#/prefixItems/0/properties/n/maximum',
      },
    ])
    expect(check(schema, [{}])).toMatchObject([
      { path: 'args[0]', message: "must have required property 'n'" },
    ])
    expect(check(schema, [{ n: 1, 'a/b': 2 }])).toMatchObject([
      { path: 'args[0].a/b', message: 'must NOT have additional properties' },
    ])
    expect(check({ items: { dependentRequired: { n: ['', 'm'] } } }, [{ n: 1 }])).toEqual([
      {
        path: 'args[0]',
        message: 'must have properties , m when property n is present',
        schema_path: '#/items/dependentRequired',
      },
    ])
    expect(check({ items: { const: 1 } }, [2])).toMatchObject([
      { path: 'args[0]', message: 'must be equal to constant' },
    ])
    expect(check({ items: { enum: [1, 3] } }, [2])).toMatchObject([
      { path: 'args[0]', message: 'must be equal to one of the allowed values' },
    ])
    expect(check({ items: { multipleOf: 0.01 } }, [0.001])).toMatchObject([
      { path: 'args[0]', message: 'must be multiple of 0.01' },
    ])
    expect(check({ contains: { const: 1 } }, [2])).toMatchObject([
      { path: 'args', message: 'must contain at least 1 valid item(s)', schema_path: '#/contains' },
    ])
    expect(check({ contains: { const: 1 }, minContains: 2, maxContains: 3 }, [2])).toMatchObject([
      { message: 'must contain at least 2 and no more than 3 valid item(s)' },
    ])
    expect(check({ prefixItems: [true], unevaluatedItems: false }, [1, 2])).toMatchObject([
      { path: 'args', message: 'must NOT have more than 1 items' },
    ])
    expect(check({ unevaluatedItems: { const: 1 } }, [1, 2])).toMatchObject([
      { path: 'args[1]', message: 'must be equal to constant' },
    ])
    expect(check({ minItems: 1 }, [])).toMatchObject([{ path: 'args' }])
  })

  it('reports at most ten violations, with short messages', () => {
    const anyOf = Array.from({ length: 30 }, (_, i) => ({ const: `${i}${'x'.repeat(300)}` }))
    const pattern = `^${'y'.repeat(500)}$`
    expect(check({ items: { anyOf } }, ['no'])).toHaveLength(10)
    const [first] = check({ items: { pattern } }, ['no']) ?? []
    expect(first?.message.length).toBeLessThan(210)
  })

  it('changes neither the schema nor the arguments', () => {
    const schema = {
      items: { type: 'object', properties: { a: { type: 'string', default: 'x' } } },
    }
    const args = [{ b: '1' }]
    const before = JSON.stringify([schema, args])
    expect(check(schema, args)).toBeNull()
    expect(JSON.stringify([schema, args])).toBe(before)
  })
})

describe('a hostile schema', () => {
  it.each<[string, Schema, RegExp]>([
    [
      'too deep nesting',
      { items: JSON.parse(`${'{"not":'.repeat(40)}true${'}'.repeat(40)}`) },
      /deeper than 32/,
    ],
    ['too many subschemas', { prefixItems: Array.from({ length: 501 }, () => true) }, /subschemas/],
    ['too many values', { enum: Array.from({ length: 5001 }, (_, i) => i) }, /values/],
    [
      'too many dependencies',
      {
        items: {
          dependentRequired: Object.fromEntries(Array.from({ length: 500 }, (_, i) => [i, []])),
        },
      },
      /subschemas/,
    ],
    [
      'a pattern that compiles to too much',
      { pattern: '(((a{100}){100}){100})' },
      /cannot be used/,
    ],
    [
      'patterns that compile to too much together',
      { prefixItems: Array.from({ length: 20 }, (_, i) => ({ pattern: `${i}a{1000}` })) },
      /too large/,
    ],
    ['a pattern that is too long', { items: { pattern: 'a'.repeat(1001) } }, /1000 characters/],
    ['a pattern that nests too deep', { items: { pattern: '('.repeat(900) } }, /cannot be used/],
    ['a member __proto__', parsed('{"properties":{"__proto__":{"type":"string"}}}'), /__proto__/],
    [
      'a constant with a member __proto__',
      parsed('{"items":{"const":{"a":{"__proto__":{"polluted":true}}}}}'),
      /__proto__/,
    ],
    [
      'definitions that refer to each other in a circle',
      {
        prefixItems: [{ $ref: '#/$defs/a' }],
        minItems: 1,
        $ref: '#/$defs/c',
        $defs: { a: true, b: { $ref: '#/$defs/c' }, c: { $ref: '#/$defs/b' } },
      },
      /without end/,
    ],
  ])('is refused for %s', (_, schema, reason) => {
    expect(() => compileArgsSchema(schema)).toThrow(reason)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })

  it.each<[string, Schema, unknown[]]>([
    ['members that many references pass on', handedOn(200), [members(10_000)]],
    ['work that doubles with each definition', doubling('allOf', 40), ['x']],
    ['failures that double with each definition', doubling('anyOf', 40), [1]],
    [
      'work that doubles with each level',
      { allOf: [{ items: { $ref: '#' } }, { items: { $ref: '#' } }] },
      nested(30),
    ],
    ['an endless reference in an item', { items: { $ref: '#/items' } }, [1]],
    [
      'two references in a circle',
      {
        prefixItems: [{ $ref: '#/$defs/a' }],
        $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } },
      },
      [1],
    ],
    [
      'a long enum for many items',
      { items: { enum: Array.from({ length: 4000 }, (_, i) => i) } },
      Array.from({ length: 2000 }, () => 3999),
    ],
    [
      'many searches for contains in many items',
      { anyOf: Array.from({ length: 200 }, () => ({ contains: { type: 'string' } })) },
      Array.from({ length: 10_000 }, () => 1),
    ],
    [
      'many anyOf branches for many items',
      { items: { anyOf: Array.from({ length: 100 }, (_, i) => ({ const: i })) } },
      Array.from({ length: 15_000 }, () => 99),
    ],
    [
      'uniqueItems of very many values',
      { uniqueItems: true },
      Array.from({ length: 250_000 }, (_, i) => [i]),
    ],
    [
      'uniqueItems of many items with a long name',
      { allOf: Array.from({ length: 200 }, () => ({ uniqueItems: true })) },
      [{ ['n'.repeat(1_000_000)]: 1 }],
    ],
    [
      'constants that are compared with objects of very many members',
      { items: { allOf: Array.from({ length: 100 }, () => ({ not: { const: { a: {} } } })) } },
      [{ a: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, 1])) }],
    ],
    [
      'lists that are compared with very many members',
      { items: { allOf: Array.from({ length: 100 }, () => ({ not: { enum: [1, {}] } })) } },
      [Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, 1]))],
    ],
    [
      'e-mail addresses with a hundred labels each',
      { items: { allOf: Array.from({ length: 10 }, () => ({ format: 'email' })) } },
      Array.from({ length: 5_000 }, () => `a@${'n.'.repeat(100)}n`),
    ],
    [
      'a pattern over a long text',
      { items: { pattern: '[ab]*a[ab]{500}c' } },
      ['ab'.repeat(100_000)],
    ],
    [
      'many checks of the length of a long text',
      { items: { allOf: Array.from({ length: 400 }, () => ({ minLength: 1 })) } },
      ['x'.repeat(1_000_000)],
    ],
    [
      'patterns for very many names',
      {
        items: {
          patternProperties: Object.fromEntries(
            Array.from({ length: 300 }, (_, i) => [`^a${i}`, true]),
          ),
        },
      },
      [Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`k${i}`, 1]))],
    ],
  ])('runs out of budget with %s', (_, schema, args) => {
    const compiled = compileArgsSchema(schema)
    expect(() => compiled.violations(args, new CostBudget())).toThrow(CostExceeded)
    // The compiled schema still works for the next arguments.
    expect(() => compiled.violations([], new CostBudget())).not.toThrow()
  })

  it.each([
    ['(a+)+$', `${'a'.repeat(5_000)}!`],
    ['^(a|aa)+$', `${'a'.repeat(5_000)}!`],
    ['^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@)$', `${'0'.repeat(2_000)}!`],
  ])('is safe from the catastrophic pattern %s', (pattern, text) => {
    expect(check({ items: { pattern } }, [text])).toHaveLength(1)
  })

  it('copies no errors of other items while it evaluates contains', () => {
    const schema = { contains: { $ref: '#/$defs/header' }, $defs: { header: { type: 'object' } } }
    const numbers = Array.from({ length: 2_000 }, (_, i) => i)
    // Ajv concatenates the errors of a reference to those that it has already.
    const concat = vi.spyOn(Array.prototype, 'concat')
    onTestFinished(() => concat.mockRestore())
    const violations = check(schema, numbers)
    const copied = concat.mock.contexts.reduce<number>(
      (sum, list) => sum + (list as unknown[]).length,
      0,
    )
    expect(copied).toBeLessThanOrEqual(numbers.length)
    expect(violations).toEqual([
      { path: 'args', message: 'must contain at least 1 valid item(s)', schema_path: '#/contains' },
    ])
  })

  it('compiles a large definition once, however often it is referred to', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 150 }, (_, i) => [`p${i}`, { type: 'string' }]),
    )
    const prefixItems = Array.from({ length: 300 }, () => ({ $ref: '#/$defs/large' }))
    // Compiling it three hundred times would take minutes.
    const schema = { prefixItems, $defs: { large: { type: 'object', properties } } }
    expect(check(schema, [{ p0: 'x', p149: 1 }])).toMatchObject([{ path: 'args[0].p149' }])
  })

  it('accepts large but simple arguments', () => {
    const numbers = Array.from({ length: 500_000 }, (_, i) => i)
    expect(check({ items: { type: 'integer' } }, numbers)).toBeNull()
    const rows = Array.from({ length: 20_000 }, (_, i) => ({ id: i, name: `name ${i}` }))
    const row = {
      type: 'object',
      properties: {
        id: { type: 'integer' },
        name: { type: 'string', maxLength: 50, pattern: '^\\w+' },
      },
      required: ['id', 'name'],
    }
    expect(check({ items: row }, rows)).toBeNull()
    const times = Array.from({ length: 70_000 }, () => '2026-11-23T12:00:00.000Z')
    expect(check({ items: { type: 'string', format: 'date-time' } }, times)).toBeNull()
  })

  it('uses up budget for a multipleOf far from what a double is exact for', () => {
    const numbers = Array.from({ length: 1_000 }, () => 1e-27)
    const budget = () => new CostBudget(200_000)
    expect(check({ items: { multipleOf: 1e-9 } }, [0, ...numbers.fill(1e-9)], budget())).toBeNull()
    expect(() => check({ items: { multipleOf: 1e-30 } }, numbers, budget())).toThrow(CostExceeded)
  })

  it('shares budget among the jobs of a request', () => {
    const compiled = compileArgsSchema({ items: { type: 'integer' } })
    const numbers = Array.from({ length: 100_000 }, (_, i) => i)
    const budget = new CostBudget(stepsFor(0) / 10)
    expect(compiled.violations(numbers, budget)).toBeNull()
    expect(() => {
      for (let i = 0; i < 10; i++) compiled.violations(numbers, budget)
    }).toThrow(CostExceeded)
    expect(stepsFor(1000)).toBeGreaterThan(stepsFor(1))
  })
})
