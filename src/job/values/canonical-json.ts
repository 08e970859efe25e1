/** Canonical JSON (RFC 8785), for unique keys and repeated requests; bounded in time. */
import { createHash, hash } from 'node:crypto'
import { invalidField, OjsError } from '../../errors.ts'

/** Protects the stack. HTTP bodies nest 32 levels at most (`schemas/json/json-text.ts`). */
const MAX_DEPTH = 100
/** About 0.15 µs each. Enough for 250,000 names in one object, or two million in objects of three. */
const MAX_COMPARISONS = 5_000_000

/**
 * Bounds the time that sorting the object members of one request takes. Without it the largest batch could
 * take half a minute, in which nothing else runs in this process and RabbitMQ closes the connections.
 */
export class SortingBudget {
  #left = MAX_COMPARISONS

  /** Pays for sorting an object with this many members. Throws `OjsError` 413. */
  take(members: number): void {
    // n log n; the number of binary digits stands for the logarithm.
    this.#left -= members * (32 - Math.clz32(members))
    if (this.#left >= 0) return
    throw new OjsError(
      'invalid_request',
      'The request has too many members to compare for its Idempotency-Key or unique policies.',
      { status: 413, details: { reason: 'too_many_members' } },
    )
  }
}

/**
 * The canonical JSON (RFC 8785) of a value that `JSON.parse` made: members sorted by UTF-16 units, no spaces,
 * numbers and escapes as ECMAScript writes them. Texts and names are normalised to NFC before (OJS unique jobs),
 * so that the same text typed on two machines is equal. Throws `OjsError` 400 for more than 100 nested
 * levels, 413 for too much sorting. `sorting`: the budget of the whole request.
 */
export function canonicalJson(value: unknown, sorting = new SortingBudget()): string {
  return write(value, 0, sorting)
}

/** What becomes of texts and names before they are compared. */
type TextForm = (text: string) => string

/** Two different texts stay different. */
const asSent: TextForm = (text) => text

/**
 * SHA-256 of a value's canonical JSON, in lowercase hexadecimal; texts as they were sent, unless `form` changes
 * them. Pauses (`yield`) where something else may run: a body of 2 MiB takes up to 400 ms.
 */
export function* fingerprint(value: unknown, form: TextForm = asSent): Generator<void, string> {
  const writing = { sorting: new SortingBudget(), form }
  const digest = createHash('sha256')
  let text = ''
  for (const piece of pieces(value, 0, writing)) {
    text += piece
    if (text.length < PIECE) continue
    digest.update(text)
    text = ''
    yield
  }
  return digest.update(text).digest('hex')
}

/** In characters. */
const PIECE = 16_384

/** SHA-256 of a text in UTF-8, in lowercase hexadecimal. */
export function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}

interface Writing {
  sorting: SortingBudget
  form: TextForm
}

/** As `write`, but in pieces. */
function* pieces(value: unknown, depth: number, writing: Writing): Generator<string> {
  if (typeof value === 'string') {
    yield quoted(value, writing.form)
    return
  }
  if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) {
    yield write(value, depth, writing.sorting)
    return
  }
  let before = ''
  if (Array.isArray(value)) {
    yield '['
    for (const item of value) {
      yield before
      yield* pieces(item, depth + 1, writing)
      before = ','
    }
    yield ']'
    return
  }
  const source = value as Readonly<Record<string, unknown>>
  yield '{'
  for (const name of namesOf(source, writing.sorting, writing.form)) {
    yield `${before}${quoted(name, writing.form)}:`
    yield* pieces(source[name], depth + 1, writing)
    before = ','
  }
  yield '}'
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

// Uses `+=`, as this runs for every unique job, and `map` with `join` costs twice as much.
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

/** An object's own names, sorted by their form, `__proto__` too; those whose forms are equal as they are. */
function namesOf(source: object, sorting: SortingBudget, form: TextForm = normal): string[] {
  const names = Object.keys(source)
  if (names.length < 2) return names
  sorting.take(names.length)
  names.sort(compare)
  if (names.every((name) => form(name) === name)) return names
  const pairs = names.map((name) => ({ name, formed: form(name) }))
  return pairs.sort((a, b) => compare(a.formed, b.formed)).map(({ name }) => name)
}

/** Compares by UTF-16 units (RFC 8785 §3.2.3). */
export function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Matches texts that need neither escapes nor normalisation: most texts. */
const PLAIN = /^[ !#-[\]-\u02ff]*$/

function isPlain(text: string): boolean {
  return PLAIN.test(text)
}

function quoted(text: string, form: TextForm = normal): string {
  return isPlain(text) ? `"${text}"` : JSON.stringify(form(text))
}

const PERHAPS_NOT_NORMAL = /[^\0-\u02ff]/

/** The text in NFC. The quick test first: below U+0300 nothing combines, so most texts are in NFC already. */
export function normal(text: string): string {
  return PERHAPS_NOT_NORMAL.test(text) && !isHeaped(text) ? text.normalize('NFC') : text
}

const PERHAPS_HEAPED = /[^\0-\u02ff]{31}/
const HEAPED = /(?:^|\P{M})\p{M}{31}/u

/**
 * True for a text with more than 30 combining marks on one letter, which no language has (UAX #15 §12). It is
 * not normalised: sorting the marks takes the square of their number, half a minute for 200 kB.
 */
function isHeaped(text: string): boolean {
  return PERHAPS_HEAPED.test(text) && HEAPED.test(text)
}
