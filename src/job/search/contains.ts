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
 * The longest string in `part` as JSON, or else the longest name of a member: a text that is in the JSON of
 * every value which contains `part`, unless that JSON has a backslash (which may spell the same text in another
 * way). Names come second, because all jobs of a type have them. '': there is none.
 */
export function needleOf(part: unknown): string {
  const texts = textsIn(part)
  return longest(texts.values) || longest(texts.names)
}

function longest(texts: readonly string[]): string {
  return texts
    .map((text) => JSON.stringify(text))
    .filter((text) => !text.includes('\\'))
    .reduce((longer, text) => (text.length > longer.length ? text : longer), '')
}

/** The strings and the names of members, at any depth. */
function textsIn(value: unknown): { values: string[]; names: string[] } {
  if (typeof value === 'string') return { values: [value], names: [] }
  if (typeof value !== 'object' || value === null) return { values: [], names: [] }
  const inner = Object.values(value).map(textsIn)
  return {
    values: inner.flatMap(({ values }) => values),
    names: [
      ...(Array.isArray(value) ? [] : Object.keys(value)),
      ...inner.flatMap(({ names }) => names),
    ],
  }
}
