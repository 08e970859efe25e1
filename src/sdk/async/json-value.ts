/** Refuses values that JSON would change without a word. */

/** Deeper values are left to the server, which refuses them (seed 001 §6.1). */
const MAX_DEPTH = 100

/**
 * Throws `TypeError` if `JSON.stringify` would turn a value of the body into another one without a word: NaN
 * into null, a Map or a promise into {}. Accepts what keeps its meaning: members that are undefined are left
 * out, and `toJSON` decides, so that a Date becomes its text. Cycles and BigInt are left to `JSON.stringify`,
 * which refuses them itself.
 */
export function requireJson(body: object): void {
  const flaw = flawOf(body, '', [])
  if (flaw !== undefined) throw new TypeError(`'${flaw.path}' is ${flaw.what}.`)
}

/** `path` names the value, e.g. `args[1].at`. */
interface Flaw {
  path: string
  what: string
}

/** `key`: the name under which the enclosing object has the value. The path is only put together for a flaw. */
function flawOf(value: unknown, key: string, enclosing: object[]): Flaw | undefined {
  switch (typeof value) {
    case 'number':
      if (Number.isFinite(value)) return undefined
      return { path: '', what: `${value}, which JSON would turn into null` }
    case 'function':
    case 'symbol':
      return { path: '', what: `a ${typeof value}, which JSON does not have` }
    case 'object':
      return value === null ? undefined : flawOfObject(value, key, enclosing)
    default:
      return undefined
  }
}

function flawOfObject(value: object, key: string, enclosing: object[]): Flaw | undefined {
  if (enclosing.length >= MAX_DEPTH || enclosing.includes(value)) return undefined
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function')
    return flawOfText(value, toJSON.call(value, key), key, enclosing)
  if (changesInJson(value)) {
    const name = nameOf(value)
    return { path: '', what: `${name}, of which JSON would keep nothing that can be read back` }
  }
  enclosing.push(value)
  const flaw = Array.isArray(value) ? flawIn(value, enclosing) : flawAmong(value, enclosing)
  enclosing.pop()
  return flaw
}

/** `made`: what `toJSON` gave; for an invalid date null. */
function flawOfText(
  value: object,
  made: unknown,
  key: string,
  enclosing: object[],
): Flaw | undefined {
  if (made === null && value instanceof Date) {
    return { path: '', what: 'an invalid date, which JSON would turn into null' }
  }
  if (made === undefined) {
    return { path: '', what: 'an object whose toJSON() returns no JSON value' }
  }
  enclosing.push(value)
  const flaw = flawOf(made, key, enclosing)
  enclosing.pop()
  return flaw
}

function flawIn(list: readonly unknown[], enclosing: object[]): Flaw | undefined {
  // Not `entries()`: this runs for every job. A hole of the list is undefined too.
  for (let i = 0; i < list.length; i += 1) {
    const item = list[i]
    if (item === undefined) {
      return { path: `[${i}]`, what: 'undefined, which JSON would turn into null' }
    }
    const flaw = flawOf(item, String(i), enclosing)
    if (flaw !== undefined) return { path: below(`[${i}]`, flaw.path), what: flaw.what }
  }
  return undefined
}

function flawAmong(value: object, enclosing: object[]): Flaw | undefined {
  for (const name of Object.keys(value)) {
    const flaw = flawOf((value as Record<string, unknown>)[name], name, enclosing)
    if (flaw !== undefined) return { path: below(name, flaw.path), what: flaw.what }
  }
  return undefined
}

function below(name: string, path: string): string {
  return path === '' || path.startsWith('[') ? `${name}${path}` : `${name}.${path}`
}

/**
 * True for objects whose content JSON does not see: a Map, a Set, a promise that was not awaited, an error, a
 * regular expression; and for bytes, of which it makes an object with an entry for each. (A `Buffer` has a
 * `toJSON`.) An instance of a program's own class counts if it has no member of its own.
 */
function changesInJson(value: object): boolean {
  if (Array.isArray(value) || isPlain(value) || isBoxed(value)) return false
  if (value instanceof Error || ArrayBuffer.isView(value)) return true
  return Object.keys(value).length === 0
}

/** Also for objects of another realm, such as the context that a test runs in. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** JSON writes `new Number(1)` as 1. */
function isBoxed(value: object): boolean {
  return value instanceof Number || value instanceof String || value instanceof Boolean
}

function nameOf(value: object): string {
  const name: unknown = value.constructor?.name
  const shown = typeof name === 'string' && name !== '' ? name : 'object'
  return `${/^[aeio]/i.test(shown) ? 'an' : 'a'} ${shown}`
}
