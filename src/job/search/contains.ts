/** Whether one JSON value contains another, and a text that the JSON of each such value has. */

/**
 * True if `value` contains `part`: an object contains the members that are in it, with values that contain
 * theirs; an array contains an array each of whose items one of its own contains; anything else contains its
 * equal.
 */
export function contains(value: unknown, part: unknown): boolean {
  if (Array.isArray(part)) {
    return Array.isArray(value) && part.every((item) => value.some((own) => contains(own, item)))
  }
  if (typeof part === 'object' && part !== null) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
    return Object.entries(part).every(
      ([name, member]) =>
        Object.hasOwn(value, name) && contains((value as Record<string, unknown>)[name], member),
    )
  }
  return value === part
}

/**
 * A text that is in the JSON of every value which contains `part`, unless that JSON has a backslash (which may
 * spell the same text in another way); the longest there is, '' if there is none.
 */
export function needleOf(part: unknown): string {
  return stringsIn(part)
    .map((text) => JSON.stringify(text))
    .reduce(
      (longest, text) => (text.length > longest.length && !text.includes('\\') ? text : longest),
      '',
    )
}

/** The strings and the names of members, at any depth. */
function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(stringsIn)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [name, ...stringsIn(member)])
}
