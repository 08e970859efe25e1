import { membersOf } from '../job/json-value.ts'

/**
 * A copy of `value`, as `JSON.parse(JSON.stringify(value))` would make it, for a third of the cost.
 * Undefined where that could be anything but the plain data that lies there: for whatever has a
 * prototype or a `toJSON` of its own, a number that JSON or `parseJsonObject` would not keep, nesting
 * beyond `maxDepth`, a member called `__proto__`. What becomes of those is for the long way to say.
 */
export function plainCopy(value: unknown, maxDepth: number): unknown {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value
    case 'number':
      return isKept(value) ? value : undefined
    case 'object':
      if (value === null) return null
      if (maxDepth === 0) return undefined
      return Array.isArray(value)
        ? listCopy(value, maxDepth)
        : objectCopy(membersOf(value), maxDepth)
    default:
      return undefined
  }
}

/** Neither NaN nor -0 come out as they went in, and beyond 2^53 it depends on the digits. */
function isKept(value: number): boolean {
  if (Number.isSafeInteger(value)) return !Object.is(value, -0)
  return Number.isFinite(value) && !Number.isInteger(value)
}

function listCopy(list: readonly unknown[], maxDepth: number): unknown[] | undefined {
  if (Object.getPrototypeOf(list) !== Array.prototype || 'toJSON' in list) return undefined
  const copy: unknown[] = []
  for (const item of list) {
    const one = plainCopy(item, maxDepth - 1)
    if (one === undefined) return undefined
    copy.push(one)
  }
  return copy
}

function objectCopy(object: Record<string, unknown>, maxDepth: number): object | undefined {
  if (Object.getPrototypeOf(object) !== Object.prototype || 'toJSON' in object) return undefined
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(object)) {
    const value = object[name]
    if (value === undefined) continue
    const one = plainCopy(value, maxDepth - 1)
    // An assignment to that name would change the prototype instead.
    if (one === undefined || name === '__proto__') return undefined
    copy[name] = one
  }
  return copy
}
