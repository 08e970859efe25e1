import { createHash } from 'node:crypto'
import { invalidField } from '../errors.ts'

/** Bodies nest 32 levels at most (`schemas/json-text.ts`); this keeps any other caller off the stack. */
const MAX_DEPTH = 100

/**
 * RFC 8785 of a value that `JSON.parse` made: members in the order of their UTF-16 units, no spaces,
 * numbers and escapes as ECMAScript writes them. Texts and names are in NFC first (ojs-digest §5.2),
 * so that one text typed on two machines is one text. Throws `OjsError` 400 for what nests deeper
 * than 100 levels.
 */
export function canonicalJson(value: unknown): string {
  return write(value, 0)
}

/** SHA-256 of it, in lowercase hexadecimal. */
export function fingerprint(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex')
}

function write(value: unknown, depth: number): string {
  if (typeof value === 'string') return JSON.stringify(value.normalize('NFC'))
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (depth === MAX_DEPTH) {
    throw invalidField('body', `The body nests deeper than ${MAX_DEPTH} levels.`)
  }
  if (Array.isArray(value)) return `[${value.map((item) => write(item, depth + 1)).join(',')}]`
  const source = value as Readonly<Record<string, unknown>>
  const members = namesOf(source).map(
    ({ raw, name }) => `${JSON.stringify(name)}:${write(source[raw], depth + 1)}`,
  )
  return `{${members.join(',')}}`
}

interface Name {
  raw: string
  name: string
}

/** Own names only, `__proto__` among them. Two that are one in NFC keep an order of their own. */
function namesOf(source: object): Name[] {
  return Object.keys(source)
    .map((raw) => ({ raw, name: raw.normalize('NFC') }))
    .sort((a, b) => compare(a.name, b.name) || compare(a.raw, b.raw))
}

/** By UTF-16 units, as RFC 8785 §3.2.3 wants it. */
function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
