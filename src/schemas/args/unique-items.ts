/** `uniqueItems` in one pass over the items. */
import type { FuncKeywordDefinition } from 'ajv/dist/2020.js'
import type { Fuel } from './cost-budget.ts'

/** `uniqueItems` in one pass over the items: Ajv's own compares every pair. */
export function uniqueItems(fuel: () => Fuel): FuncKeywordDefinition {
  return {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must NOT have duplicate items' },
    validate: (isWanted: boolean, items: readonly unknown[]) =>
      !isWanted || areUnique(items, fuel()),
  }
}

function areUnique(items: readonly unknown[], fuel: Fuel): boolean {
  const seen = new Set<string>()
  for (const item of items) {
    const text = canonical(item, fuel)
    if (seen.has(text)) return false
    seen.add(text)
  }
  return true
}

/** Equal values, and only these, give the same text. Charged on each level, since each copies the text. */
function canonical(value: unknown, fuel: Fuel): string {
  const text = textOf(value, fuel)
  fuel.take(20 + (text.length >> 3))
  return text
}

function textOf(value: unknown, fuel: Fuel): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, fuel)).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([name, member]) => `${JSON.stringify(name)}:${canonical(member, fuel)}`,
    )
    return `{${members.sort().join(',')}}`
  }
  return JSON.stringify(value)
}
