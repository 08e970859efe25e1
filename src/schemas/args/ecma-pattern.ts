/** Translates ECMA-262 patterns to RE2 where the two read the same text differently. */
import { SchemaFault } from './formats.ts'

/** ECMA-262's WhiteSpace and LineTerminator, and the complement. RE2's `\s` has only five characters. */
const SPACE = String.raw`\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff`
const NO_SPACE =
  String.raw`\x00-\x08\x0e-\x1f!-\x9f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e` +
  String.raw`\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\u{10ffff}`
const NO_LINE_END = String.raw`[^\n\r\u2028\u2029]`

/** Letters after a backslash that both engines know and, once translated, understand alike. */
const KNOWN_ESCAPES = new Set('dDwWsSbBtnvfrcxupP')

/**
 * Translates a pattern of ECMA-262 (with the flag `u`, as in JSON Schema) to RE2, where the two read the same
 * text differently. Throws `SchemaFault` for syntax that only RE2 knows: with RE2's meaning the pattern would
 * accept what every other validator refuses.
 */
export function inRe2(pattern: string): string {
  const source = withPlainEscapes(pattern)
  let text = ''
  let isInClass = false
  for (let at = 0; at < source.length; at++) {
    const char = source[at] ?? ''
    if (char === '\\') {
      text += escaped(source, at, isInClass)
      at++
    } else if (isInClass) {
      isInClass = char !== ']'
      // Escaped, since RE2 would read `[[:alpha:]]` as one class.
      text += char === '[' ? String.raw`\[` : char
    } else {
      isInClass = char === '['
      if (char === '(') requireGroup(source, at)
      text += char === '.' ? NO_LINE_END : char
    }
  }
  return text
}

/** An escaped surrogate pair; a Unicode property in its long form; any other escape. */
const ESCAPES =
  /\\(?:u([dD][89abAB][\da-fA-F]{2})\\u([dD][c-fC-F][\da-fA-F]{2})|[pP]\{(?:General_Category|gc|Script|sc)=(\w+)\}|[\s\S])/g

/**
 * Replaces the two escapes of a surrogate pair by their character, as in ECMA-262, and a property's long form
 * by the property's name, the only form that RE2 knows.
 */
function withPlainEscapes(pattern: string): string {
  return pattern.replace(ESCAPES, (whole, high?: string, low?: string, property?: string) => {
    if (high !== undefined && low !== undefined) return charOf(high, low)
    return property === undefined ? whole : `${whole.slice(0, 2)}{${property}}`
  })
}

function charOf(high: string, low: string): string {
  return String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16))
}

function escaped(source: string, at: number, isInClass: boolean): string {
  const next = source[at + 1] ?? ''
  const isLetter = /[A-Za-z]/.test(next)
  const isBraced = 'pP'.includes(next)
    ? source[at + 2] === '{'
    : next !== 'x' || source[at + 2] !== '{'
  if (next === 'k')
    throw new SchemaFault(String.raw`a pattern has '\k': back-references are not supported`)
  if (isLetter && !(KNOWN_ESCAPES.has(next) && isBraced)) throw unknown(`\\${next}`)
  if (next === 's') return isInClass ? SPACE : `[${SPACE}]`
  if (next === 'S') return isInClass ? NO_SPACE : `[^${SPACE}]`
  return next === 'b' && isInClass ? String.raw`\x08` : `\\${next}`
}

/** Throws for groups that only RE2 knows: with flags, or named as in Python. */
function requireGroup(source: string, at: number): void {
  const what = source.slice(at + 1, at + 3)
  if (what.startsWith('?') && !['?:', '?=', '?!', '?<'].includes(what)) throw unknown(`(${what}`)
}

function unknown(what: string): SchemaFault {
  return new SchemaFault(`a pattern has '${what}', which is not ECMA-262 syntax`)
}
