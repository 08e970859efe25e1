import { RE2JS } from 're2js'
import { expect, it } from 'vitest'
import { inRe2 } from '../../../src/schemas/args/ecma-pattern.ts'
import { SchemaFault } from '../../../src/schemas/args/formats.ts'

// Only those that Node's Unicode has, because RE2JS may have a newer one than Node (Debian 13: Unicode 16).
const CHARACTERS = [
  ...Array.from({ length: 0x3100 }, (_, code) => String.fromCharCode(code)).filter(isAssigned),
  ...['\ufeff', '\ufefe', '\uff00', '\u{1f600}', '\u{10ffff}', '\ud83d', '\\ud83d\ude00'],
]
const PATTERNS = [
  ...[String.raw`^\s$`, String.raw`^\S$`, String.raw`^[\s]$`, String.raw`^[^\s]$`],
  ...[String.raw`^[\S]$`, String.raw`^[^\S]$`, String.raw`^[\s\S]$`, String.raw`^[a\s-]$`],
  ...['^.$', '^[.]$', String.raw`^\.$`, String.raw`^[\b]$`, String.raw`^a\b$`],
  ...['^[[:alpha:]$', '^[[]$', String.raw`^[\]]$`, String.raw`^[\\]$`, String.raw`^[^\]a]$`],
  ...[String.raw`^\d$`, String.raw`^\D$`, String.raw`^\w$`, String.raw`^\W$`, String.raw`^\p{L}$`],
  ...[String.raw`^\P{Lu}$`, String.raw`^\u00e9$`, String.raw`^\u{1f600}$`, String.raw`^\xe9$`],
  ...[String.raw`^\cA$`, String.raw`^\0$`, String.raw`^\/$`, '^(?:a|.)$'],
  ...[String.raw`^\ud83d\ude00$`, String.raw`^[\uD83D\uDE00-\ud83d\ude4f]$`, String.raw`^\ud83d$`],
  ...[String.raw`^\\ud83d\ude00$`, String.raw`^\p{Script=Greek}$`, String.raw`^[^\P{sc=Latin}]$`],
  ...[String.raw`^\p{General_Category=Lu}$`, String.raw`^[\P{gc=N}]$`],
  ...[String.raw`^(?<x>\S)$`, '^a?.{0,1}$', '^$', 'b$'],
]

it.each(PATTERNS)('the pattern %s matches the same texts as in JavaScript', (pattern) => {
  const own = RE2JS.compile(RE2JS.translateRegExp(inRe2(pattern)))
  const theirs = new RegExp(pattern, 'u')
  const texts = [...CHARACTERS, '', 'ab', ':]', 'a]', 'a\u00a0b']
  // No `expect` for each text: half a million of them take 10 s.
  const differing = texts.filter((text) => own.test(text) !== theirs.test(text))
  expect(differing).toEqual([])
})

it.each([
  ...['(?i)a', '(?s).', '(?P<x>a)', String.raw`\pL`, String.raw`\x{41}`, String.raw`\a`],
  ...[String.raw`\Qa\E`, String.raw`\A`, String.raw`\z`, String.raw`[\a]`],
])('the pattern %s of RE2 is refused, because JavaScript does not have it', (pattern) => {
  expect(() => inRe2(pattern)).toThrow(SchemaFault)
})

it('the error for a back-reference names it as such', () => {
  expect(() => inRe2(String.raw`^(?<x>a)\k<x>$`)).toThrow('back-references are not supported')
})

function isAssigned(character: string): boolean {
  return !/\p{Cn}/u.test(character)
}
