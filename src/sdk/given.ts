import { isRecord } from './json.ts'

/** The options without members that are `undefined`, so that these do not override defaults. */
export function given<T extends object>(options: T): Given<T> {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as Given<T>
}

/** Throws `TypeError` if `value` is no object: programs without types may pass something else. */
export function requireObject(value: unknown, message: string): void {
  if (!isRecord(value)) throw new TypeError(message)
}

export type Given<T> = { [Name in keyof T]: Exclude<T[Name], undefined> }
