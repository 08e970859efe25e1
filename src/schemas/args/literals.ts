/** `const` and `enum` that pay for every comparison. */
import type { FuncKeywordDefinition } from 'ajv/dist/2020.js'
import { isJsonObject } from '../../job/values/json-value.ts'
import type { CostBudget } from './cost-budget.ts'

/** Steps (see `COST`) for each name of an object that V8 lists without looking at the values. */
const PER_NAME = 10

/**
 * `const` and `enum`. `COST` charges for the size of the schema's values only; comparing also counts the
 * members of the data, however many there are, which Ajv's own does without paying.
 */
export function literals(budget: () => CostBudget): FuncKeywordDefinition[] {
  return [
    {
      keyword: 'const',
      error: { message: 'must be equal to constant' },
      validate: (literal: unknown, data: unknown) => isEqual(literal, data, budget()),
    },
    {
      keyword: 'enum',
      schemaType: 'array',
      error: { message: 'must be equal to one of the allowed values' },
      validate: (allowed: readonly unknown[], data: unknown) =>
        allowed.some((literal) => isEqual(literal, data, budget())),
    },
  ]
}

function isEqual(literal: unknown, data: unknown, budget: CostBudget): boolean {
  if (literal === data) return true
  if (Array.isArray(literal)) {
    const isList = Array.isArray(data) && data.length === literal.length
    return isList && literal.every((item, i) => isEqual(item, data[i], budget))
  }
  if (!isJsonObject(literal) || !isJsonObject(data)) return false
  const names = Object.keys(literal)
  for (const name of names) {
    if (!Object.hasOwn(data, name) || !isEqual(literal[name], data[name], budget)) return false
  }
  const { length } = Object.keys(data)
  budget.take(PER_NAME * length)
  return length === names.length
}
