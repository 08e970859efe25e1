import { isRecord } from './json.ts'

/** Without the members that are `undefined`: those count as absent, as defaults take them. */
export function given<T extends object>(options: T): Given<T> {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as Given<T>
}

/** Throws `TypeError` for what programs without types give instead. */
export function requireObject(value: unknown, message: string): void {
  if (!isRecord(value)) throw new TypeError(message)
}

export type Given<T> = { [Name in keyof T]: Exclude<T[Name], undefined> }
