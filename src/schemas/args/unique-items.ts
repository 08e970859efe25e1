/** `uniqueItems` in one pass over the items. */
import type { FuncKeywordDefinition } from 'ajv/dist/2020.js'
import type { CostBudget } from './cost-budget.ts'

/** `uniqueItems` in one pass over the items: Ajv's own compares every pair. */
export function uniqueItems(budget: () => CostBudget): FuncKeywordDefinition {
  return {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must NOT have duplicate items' },
    validate: (isWanted: boolean, items: readonly unknown[]) =>
      !isWanted || areUnique(items, budget()),
  }
}

function areUnique(items: readonly unknown[], budget: CostBudget): boolean {
  const seen = new Set<string>()
  for (const item of items) {
    const text = canonical(item, budget)
    if (seen.has(text)) return false
    seen.add(text)
  }
  return true
}

/** Equal values, and only these, give the same text. Charged on each level, since each copies the text. */
function canonical(value: unknown, budget: CostBudget): string {
  const text = textOf(value, budget)
  budget.take(20 + (text.length >> 3))
  return text
}

function textOf(value: unknown, budget: CostBudget): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, budget)).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([name, member]) => `${JSON.stringify(name)}:${canonical(member, budget)}`,
    )
    return `{${members.sort().join(',')}}`
  }
  return JSON.stringify(value)
}
