/** A copy in the order of the characters' codes, for comparisons that are not about order. */
export function inOrder(texts: Iterable<string>): string[] {
  return [...texts].sort((a, b) => (a < b ? -1 : Number(a > b)))
}
