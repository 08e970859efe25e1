import { _, type CodeKeywordDefinition, type KeywordCxt, Name, str } from 'ajv/dist/2020.js'
import { Type } from 'ajv/dist/compile/util.js'

/**
 * `contains`, `unevaluatedItems` and `if` as draft 2020-12 means them. Ajv's own are wrong in a case each:
 * - `contains` of an empty list has the answer of the list before.
 * - `unevaluatedItems` looks at no item where a keyword that might have evaluated some has not.
 * - `if`: what it has evaluated counts as evaluated although it has failed.
 */
export function applicators(): CodeKeywordDefinition[] {
  return [
    {
      keyword: 'contains',
      // What comes after that is left out where a list is empty, and this counts then, too.
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
    // What the item failed at is no error of the list, and a reference copies all errors so far.
    context.reset()
    // One more changes nothing.
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

/** `it.items`: how many were evaluated, from the first on, or all (true); a name: known when it runs. */
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

/** Also where nothing depends on it: what it evaluated is evaluated. */
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

/** The keyword's schema for each item; `then`: the code after one, told by a name whether it matched. */
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
