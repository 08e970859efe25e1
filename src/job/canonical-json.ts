import { hash } from 'node:crypto'
import { invalidField, OjsError } from '../errors.ts'

/** Bodies nest 32 levels at most (`schemas/json-text.ts`); this keeps any other caller off the stack. */
const MAX_DEPTH = 100
/** Some 0.15 µs each; 250,000 names in one object, or two millions in objects of three. */
const MAX_COMPARISONS = 5_000_000

/**
 * What the objects of one request may take to bring into order. The largest batch could ask for half
 * a minute of it, in which nothing else runs here and RabbitMQ gives the connections up.
 */
export class SortingBudget {
  #left = MAX_COMPARISONS

  /** For an object of `members`. Throws `OjsError` 413. */
  take(members: number): void {
    // n log n, with the logarithm as its number of binary digits.
    this.#left -= members * (32 - Math.clz32(members))
    if (this.#left >= 0) return
    throw new OjsError(
      'invalid_request',
      'There are too many members in what an Idempotency-Key or a unique policy compares.',
      { status: 413, details: { reason: 'too_many_members' } },
    )
  }
}

/**
 * RFC 8785 of a value that `JSON.parse` made: members in the order of their UTF-16 units, no spaces,
 * numbers and escapes as ECMAScript writes them. Texts and names are in NFC first (ojs-digest §5.2),
 * so that one text typed on two machines is one text. Throws `OjsError` 400 for what nests deeper
 * than 100 levels, 413 for what takes too long. `sorting`: of the request that it is a part of.
 */
export function canonicalJson(value: unknown, sorting = new SortingBudget()): string {
  return write(value, 0, sorting)
}

/** SHA-256 of a value's canonical JSON, in lowercase hexadecimal. */
export function fingerprint(value: unknown): string {
  return sha256(canonicalJson(value))
}

/** The same of a text, as UTF-8. */
export function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}

function write(value: unknown, depth: number, sorting: SortingBudget): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (depth === MAX_DEPTH) {
    throw invalidField('body', `The body nests deeper than ${MAX_DEPTH} levels.`)
  }
  if (Array.isArray(value)) return writeArray(value, depth + 1, sorting)
  return writeObject(value as Readonly<Record<string, unknown>>, depth + 1, sorting)
}

// Texts grow by `+=`: this runs for every unique job, and costs half of what `map` and `join` do.
function writeArray(items: readonly unknown[], depth: number, sorting: SortingBudget): string {
  let text = ''
  for (const item of items) text += `${text === '' ? '' : ','}${write(item, depth, sorting)}`
  return `[${text}]`
}

function writeObject(
  source: Readonly<Record<string, unknown>>,
  depth: number,
  sorting: SortingBudget,
): string {
  let text = ''
  for (const name of namesOf(source, sorting)) {
    const comma = text === '' ? '' : ','
    text += `${comma}${quoted(name)}:${write(source[name], depth, sorting)}`
  }
  return `{${text}}`
}

/** Own names only, `__proto__` among them. Two that are one in NFC keep an order of their own. */
function namesOf(source: object, sorting: SortingBudget): string[] {
  const names = Object.keys(source)
  if (names.length < 2) return names
  sorting.take(names.length)
  names.sort(compare)
  if (names.every((name) => normal(name) === name)) return names
  const pairs = names.map((name) => ({ name, normal: normal(name) }))
  return pairs.sort((a, b) => compare(a.normal, b.normal)).map(({ name }) => name)
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
export function normal(text: string): string {
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
