import { SchemaFault } from './schema-fault.ts'

/** ECMA-262, WhiteSpace and LineTerminator; and all else. RE2's `\s` is five ASCII characters. */
const SPACE = String.raw`\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff`
const NO_SPACE =
  String.raw`\x00-\x08\x0e-\x1f!-\x9f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e` +
  String.raw`\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\u{10ffff}`
const NO_LINE_END = String.raw`[^\n\r\u2028\u2029]`

/** After a backslash, of letters: what both know and mean alike, once translated. */
const KNOWN_ESCAPES = new Set('dDwWsSbBtnvfrcxupP')

/**
 * A pattern of ECMA-262 (with the flag `u`, as JSON Schema has it) in RE2's words, where the two read
 * the same text differently. Throws `SchemaFault` for what only RE2 knows: taken for what it means
 * there, it would accept what any other validator refuses.
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
      // Else `[[:alpha:]]` would be one class.
      text += char === '[' ? String.raw`\[` : char
    } else {
      isInClass = char === '['
      if (char === '(') requireGroup(source, at)
      text += char === '.' ? NO_LINE_END : char
    }
  }
  return text
}

/** A surrogate pair; a property of Unicode by its long form; `[\s\S]`: any other. */
const ESCAPES =
  /\\(?:u([dD][89abAB][\da-fA-F]{2})\\u([dD][c-fC-F][\da-fA-F]{2})|[pP]\{(?:General_Category|gc|Script|sc)=(\w+)\}|[\s\S])/g

/** Two escapes of a pair are one character to ECMA-262, and RE2 knows properties by their names alone. */
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
  if (next === 'k') throw new SchemaFault(String.raw`a pattern has '\k': no references back`)
  if (isLetter && !(KNOWN_ESCAPES.has(next) && isBraced)) throw unknown(`\\${next}`)
  if (next === 's') return isInClass ? SPACE : `[${SPACE}]`
  if (next === 'S') return isInClass ? NO_SPACE : `[^${SPACE}]`
  return next === 'b' && isInClass ? String.raw`\x08` : `\\${next}`
}

/** Flags, and names in Python's way. */
function requireGroup(source: string, at: number): void {
  const what = source.slice(at + 1, at + 3)
  if (what.startsWith('?') && !['?:', '?=', '?!', '?<'].includes(what)) throw unknown(`(${what}`)
}

function unknown(what: string): SchemaFault {
  return new SchemaFault(`a pattern has '${what}', which ECMA-262 does not know`)
}
