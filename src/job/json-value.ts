/** Not null, and not an array. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Of anything but an object: none, so that one may ask on. */
export function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** .NET's writers put one before the text unless they are told not to. */
export const BYTE_ORDER_MARK = /^\ufeff/

/** Null: it is no JSON, or is `null`. A byte order mark before it is passed over, as over HTTP. */
export function jsonOrNull(content: Buffer | string): unknown {
  try {
    return JSON.parse(content.toString().replace(BYTE_ORDER_MARK, ''))
  } catch {
    return null
  }
}

/** As the standard calls it, for messages. */
export function jsonTypeName(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
