/** PostgreSQL keeps no NUL in a text, but messages of foreign publishers may ask for one. */

/** Of these keys those that a row may have. */
export function withoutNul(keys: readonly string[]): readonly string[] {
  return keys.filter((key) => !key.includes('\0'))
}

/** A value to compare with: what no row has, for what none can have. */
export function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable)
  return typeof value === 'string' ? value.replaceAll('\0', '\ufffd') : value
}
