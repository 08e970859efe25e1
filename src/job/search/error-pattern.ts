/** What messages of the same error have in common: `mailbox 17 of "ada"` is `mailbox <n> of <text>`. */
import { jsonOrNull, membersOf } from '../values/json-value.ts'

/** Characters of a message that count: a stack, which some put there, is another for each attempt. */
const MOST_READ = 400
const MOST_SHOWN = 200

/** In this order: what an earlier one has replaced is no word, quote or number any more. */
const VARIABLE: readonly [RegExp, string][] = [
  [/"[^"]*"|`[^`]*`|“[^”]*”|«[^»]*»/g, '<text>'],
  // Not the apostrophe of a word.
  [/(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu, '<text>'],
  [/(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])/gi, '<id>'],
  // Words of eight characters and more that have digits: hashes, keys, request ids.
  [/(?<!\w)(?=[a-z_]*\d)\w{8,}(?!\w)/gi, '<id>'],
  [/\d+(?:[.,:]\d+)*/g, '<n>'],
  [/\s+/g, ' '],
]

/** The pattern of a message: its numbers, ids and quoted texts replaced, at most 200 characters. */
export function errorPatternOf(message: string): string {
  let pattern = message.slice(0, MOST_READ)
  for (const [what, name] of VARIABLE) pattern = pattern.replace(what, name)
  return pattern.trim().slice(0, MOST_SHOWN)
}

/** What errors are grouped by. */
export interface ErrorKind {
  code: string | null
  type: string | null
  /** Of its message; empty if it has none. */
  pattern: string
}

/** `error`: the column of a job's row. */
export function errorKindOf(error: string | null): ErrorKind & { message: string } {
  const members = membersOf(error === null ? null : jsonOrNull(error))
  const text = (name: string) => {
    const value = Object.hasOwn(members, name) ? members[name] : undefined
    return typeof value === 'string' ? value : null
  }
  const message = text('message') ?? ''
  return { code: text('code'), type: text('type'), pattern: errorPatternOf(message), message }
}
