/** What may come next in the search box. */
import { KEYS, term } from './query.ts'

/** Values that are known by key. */
export type Known = Readonly<Partial<Record<string, readonly string[]>>>

const MOST = 8

/** Whole texts that the search box could have next; the last word is the one that is being written. */
export function completions(text: string, known: Known): string[] {
  const start = text.lastIndexOf(' ') + 1
  const before = text.slice(0, start)
  const word = text.slice(start)
  const colon = word.indexOf(':')
  const found =
    colon < 0 ? keysFor(word) : valuesFor(word.slice(0, colon), word.slice(colon + 1), known)
  return found
    .filter((each) => each !== word)
    .slice(0, MOST)
    .map((each) => before + each)
}

function keysFor(word: string): string[] {
  return [...Object.keys(KEYS).map((key) => `${key}:`), 'meta.', 'age>'].filter((key) =>
    key.startsWith(word),
  )
}

function valuesFor(key: string, begun: string, known: Known): string[] {
  return (known[key] ?? [])
    .filter((value) => value.toLowerCase().includes(begun.toLowerCase()))
    .map((value) => term(key, value))
}
