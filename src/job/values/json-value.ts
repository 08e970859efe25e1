/** JSON values of unknown form: objects, members, types; texts with a byte order mark. */

/** True for a JSON object: not null, and not an array. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The members of an object; an empty object for any other value, so that nested reads need no checks. */
export function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** The text without a leading byte order mark, which .NET writes by default. */
export function jsonText(content: Buffer | string): string {
  return content.toString().replace(/^\ufeff/, '')
}

/** Parses JSON; null for invalid JSON. Skips a leading byte order mark, as for HTTP bodies. */
export function jsonOrNull(content: Buffer | string): unknown {
  try {
    return JSON.parse(jsonText(content))
  } catch {
    return null
  }
}

/** The type's name in the JSON standard, for error messages. */
export function jsonTypeName(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
