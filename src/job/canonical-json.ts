import { hash } from 'node:crypto'
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

/** SHA-256 of a value's canonical JSON, in lowercase hexadecimal. */
export function fingerprint(value: unknown): string {
  return sha256(canonicalJson(value))
}

/** The same of a text, as UTF-8. */
export function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}

function write(value: unknown, depth: number): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (depth === MAX_DEPTH) {
    throw invalidField('body', `The body nests deeper than ${MAX_DEPTH} levels.`)
  }
  if (Array.isArray(value)) return writeArray(value, depth + 1)
  return writeObject(value as Readonly<Record<string, unknown>>, depth + 1)
}

// Texts grow by `+=`: this runs for every unique job, and costs half of what `map` and `join` do.
function writeArray(items: readonly unknown[], depth: number): string {
  let text = ''
  for (const item of items) text += `${text === '' ? '' : ','}${write(item, depth)}`
  return `[${text}]`
}

function writeObject(source: Readonly<Record<string, unknown>>, depth: number): string {
  let text = ''
  for (const name of namesOf(source)) {
    const comma = text === '' ? '' : ','
    text += `${comma}${quoted(name)}:${write(source[name], depth)}`
  }
  return `{${text}}`
}

/** Own names only, `__proto__` among them. Two that are one in NFC keep an order of their own. */
function namesOf(source: object): string[] {
  const names = Object.keys(source)
  if (names.length < 2) return names
  names.sort(compare)
  if (names.every((name) => normal(name) === name)) return names
  return names.sort((a, b) => compare(normal(a), normal(b)))
}

/** By UTF-16 units (RFC 8785 §3.2.3). */
function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Neither to be escaped nor perhaps to be normalised: most texts. */
const PLAIN = /^[ !#-[\]-\u02ff]*$/

function isPlain(text: string): boolean {
  return PLAIN.test(text)
}

function quoted(text: string): string {
  return isPlain(text) ? `"${text}"` : JSON.stringify(normal(text))
}

const PERHAPS_NOT_NORMAL = /[^\0-\u02ff]/

/** Below U+0300 nothing combines: most texts are their own NFC, and this is how to see it soon. */
function normal(text: string): string {
  return PERHAPS_NOT_NORMAL.test(text) && !isHeaped(text) ? text.normalize('NFC') : text
}

const PERHAPS_HEAPED = /[^\0-\u02ff]{31}/
const HEAPED = /(?:^|\P{M})\p{M}{31}/u

/**
 * More than 30 marks on one letter, which no language has (UAX #15 §12), are left as they are: to
 * put them in order takes the square of their number, half a minute for 200 kB.
 */
function isHeaped(text: string): boolean {
  return PERHAPS_HEAPED.test(text) && HEAPED.test(text)
}
