/** Checks of options that programs without types may get wrong. */

/** The options without members that are `undefined`, so that these do not override defaults. */
export function given<T extends object>(options: T): Given<T> {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as Given<T>
}

/** Throws `TypeError` if `value` is no object: programs without types may pass something else. */
export function requireObject(value: unknown, message: string): void {
  if (!isRecord(value)) throw new TypeError(message)
}

/**
 * Throws `TypeError` for a member that `known` does not list: a misspelt option would have no effect. `of`: what
 * takes the options, e.g. `a worker`.
 */
export function requireKnown(options: object, known: object, of: string): void {
  for (const [name, value] of Object.entries(options)) {
    if (Object.hasOwn(known, name) || value === undefined) continue
    const names = Object.keys(known).join(', ')
    throw new TypeError(`'${name}' is not an option of ${of}: these are ${names}.`)
  }
}

export type Given<T> = { [Name in keyof T]: Exclude<T[Name], undefined> }

/** A JSON object: neither null nor an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
