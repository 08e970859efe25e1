/** Names of members in the style of documents and columns. */

/** `memoryUsed` is `memory_used`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
