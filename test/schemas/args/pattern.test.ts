import { RE2JS } from 're2js'
import { afterEach, expect, it, vi } from 'vitest'
import { CostBudget } from '../../../src/schemas/args/cost-budget.ts'
import { linearPatterns } from '../../../src/schemas/args/pattern.ts'

afterEach(() => vi.restoreAllMocks())

function bytesOf(...patterns: string[]): number {
  const engine = linearPatterns(() => new CostBudget())
  for (const pattern of patterns) engine(pattern)
  return engine.bytes()
}

it('the memory of compiled patterns is that of each together', () => {
  expect(bytesOf()).toBe(0)
  expect(bytesOf('a', '^b{9}$')).toBe(bytesOf('a') + bytesOf('^b{9}$'))
})

it('the memory of a pattern grows with its character classes, and most with Unicode classes and their complements', () => {
  const plain = bytesOf('^a{9}$')
  const written = bytesOf('^[acegikmoqsuwy]{9}$')
  const ofUnicode = [String.raw`^\p{L}{9}$`, String.raw`^\P{L}{9}$`].map((one) => bytesOf(one))
  expect(written).toBeGreaterThan(plain)
  for (const bytes of ofUnicode) expect(bytes).toBeGreaterThan(10 * written)
})

it('a pattern keeps at most keptBytes of what it has matched', () => {
  const compiled = vi.spyOn(RE2JS, 'compile')
  const engine = linearPatterns(() => new CostBudget())
  const [hungry, plain] = [engine('[ab]*a[ab]{20}c'), engine('[a-z]+@[a-z]+')]
  const states = compiled.mock.results.map(({ value }) => value.re2().dfa)
  for (let seed = 1; seed <= 3; seed++) expect(hungry.test(letters(seed))).toBe(false)
  expect(plain.test('who@where')).toBe(true)
  const [ofHungry = 0, ofPlain = 0] = states.map((dfa) => dfa.stateBudget - dfa.memBudget)
  expect(ofHungry).toBeLessThan(engine.keptBytes())
  expect(ofPlain).toBeGreaterThan(0)
  expect(hungry.test(`${'a'.repeat(21)}c`)).toBe(true)
})

it('a pattern for which RE2 needs no states keeps nothing', () => {
  const engine = linearPatterns(() => new CostBudget())
  expect(engine('^[a-z]+$').test('abc')).toBe(true)
  expect(engine.keptBytes()).toBe(0)
})

/** A text for each letter of which RE2 needs another state. It begins with `c`, which RE2 searches first. */
function letters(seed: number): string {
  let bits = seed
  const next = () => {
    bits = (Math.imul(bits, 1_103_515_245) + 12_345) & 0x7fffffff
    return (bits >> 16) % 2 === 0 ? 'a' : 'b'
  }
  return `c${Array.from({ length: 3_000 }, next).join('')}`
}
