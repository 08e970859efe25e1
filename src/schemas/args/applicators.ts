/** `contains`, `unevaluatedItems` and `if` as draft 2020-12 has them; Ajv's own are wrong in some cases. */
import { _, type CodeKeywordDefinition, type KeywordCxt, Name, str } from 'ajv/dist/2020.js'
import { Type } from 'ajv/dist/compile/util.js'

/**
 * `contains`, `unevaluatedItems` and `if` as draft 2020-12 defines them. Ajv's own are each wrong in one
 * case:
 * - `contains` gives an empty list the result of the previous list.
 * - `unevaluatedItems` checks no item if a keyword that might have evaluated some has not done so.
 * - `if`: what a failed `if` has evaluated counts as evaluated.
 */
export function applicators(): CodeKeywordDefinition[] {
  return [
    {
      keyword: 'contains',
      // Ajv skips the keywords after `prefixItems` for an empty list, but `contains` applies to that too.
      before: 'prefixItems',
      type: 'array',
      schemaType: ['object', 'boolean'],
      trackErrors: true,
      error: { message: ({ params }) => containsMessage(params) },
      code: contains,
    },
    {
      keyword: 'unevaluatedItems',
      type: 'array',
      schemaType: ['object', 'boolean'],
      error: { message: ({ params }) => str`must NOT have more than ${params['from']} items` },
      code: unevaluatedItems,
    },
    {
      keyword: 'if',
      schemaType: ['object', 'boolean'],
      trackErrors: true,
      error: {
        message: ({ params }) => str`must match "${params['branch']}" schema`,
        params: ({ params }) => _`{failingKeyword: ${params['branch']}}`,
      },
      code: condition,
    },
  ]
}

function contains(context: KeywordCxt): void {
  const { gen } = context
  const { minContains: min = 1, maxContains: max } = context.parentSchema
  if (min === 0 && max === undefined) return
  context.setParams({ min, max })
  const count = gen.let('count', 0)
  eachItem(context, 0, { compositeRule: true }, (isMatch) => {
    gen.if(isMatch, () => gen.code(_`${count}++`))
    // An item's failures are no errors of the list. Drop them now, since a `$ref` copies all errors so far.
    context.reset()
    // Further matches would not change the result.
    gen.if(max === undefined ? _`${count} >= ${min}` : _`${count} > ${max}`, () => gen.break())
  })
  const isEnough = _`${count} >= ${min}`
  const valid = max === undefined ? isEnough : _`${isEnough} && ${count} <= ${max}`
  context.result(valid)
}

function containsMessage({ min, max }: KeywordCxt['params']) {
  return max === undefined
    ? str`must contain at least ${min} valid item(s)`
    : str`must contain at least ${min} and no more than ${max} valid item(s)`
}

/**
 * `it.items` is the number of evaluated items, counted from the first; true means all. A `Name` stands for a
 * value that is known only at run time.
 */
function unevaluatedItems(context: KeywordCxt): void {
  const { gen, data, it } = context
  const { items = 0 } = it
  if (items === true) return
  const length = gen.const('len', _`${data}.length`)
  const start = items instanceof Name ? _`${items} === true ? ${length} : ${items}` : _`${items}`
  const from = gen.const('from', start)
  if (context.schema === false) {
    context.setParams({ from })
    context.fail(_`${length} > ${from}`)
  } else {
    const valid = gen.let('valid', true)
    eachItem(context, from, {}, (isValid) => {
      gen.if(_`!${isValid}`, () => gen.assign(valid, false).break())
    })
    context.ok(valid)
  }
  it.items = true
}

/** Evaluates `if` even without `then` and `else`, because whatever it evaluates counts as evaluated. */
function condition(context: KeywordCxt): void {
  const { gen, parentSchema } = context
  const holds = gen.name('_holds')
  const mode = { compositeRule: true, createErrors: false, allErrors: false } as const
  const tried = context.subschema({ keyword: 'if', ...mode }, holds)
  context.mergeValidEvaluated(tried, holds)
  context.reset()
  const valid = gen.let('valid', true)
  const chosen = gen.let('branch')
  context.setParams({ branch: chosen })
  const branch = (keyword: 'then' | 'else') => () => {
    if (parentSchema[keyword] === undefined) return
    const matches = gen.name('_valid')
    const checked = context.subschema({ keyword }, matches)
    gen.assign(valid, matches)
    gen.assign(chosen, _`${keyword}`)
    context.mergeValidEvaluated(checked, matches)
  }
  gen.if(holds, branch('then'), branch('else'))
  context.pass(valid, () => context.error(true))
}

/**
 * Generates a loop that applies the keyword's schema to each item. `then` generates the code after an item;
 * its argument names the variable that tells whether the item matched.
 */
function eachItem(
  context: KeywordCxt,
  from: Name | number,
  mode: { compositeRule?: true },
  then: (matched: Name) => void,
): void {
  const { gen, keyword, data } = context
  gen.forRange('i', from, _`${data}.length`, (dataProp) => {
    const matched = gen.name('_valid')
    context.subschema({ keyword, dataProp, dataPropType: Type.Num, ...mode }, matched)
    then(matched)
  })
}
