/** Not null, and not an array. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Of anything but an object: none, so that one may ask on. */
export function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** Without the byte order mark that .NET's writers put before it unless they are told not to. */
export function jsonText(content: Buffer | string): string {
  return content.toString().replace(/^\ufeff/, '')
}

/** Null: it is no JSON, or is `null`. A byte order mark before it is passed over, as over HTTP. */
export function jsonOrNull(content: Buffer | string): unknown {
  try {
    return JSON.parse(jsonText(content))
  } catch {
    return null
  }
}

/** As the standard calls it, for messages. */
export function jsonTypeName(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
