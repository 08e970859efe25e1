import { RE2JS } from 're2js'
import { afterEach, expect, it, vi } from 'vitest'
import { Fuel } from '../../src/schemas/fuel.ts'
import { linearPatterns } from '../../src/schemas/pattern.ts'

afterEach(() => vi.restoreAllMocks())

function bytesOf(...patterns: string[]): number {
  const engine = linearPatterns(() => new Fuel())
  for (const pattern of patterns) engine(pattern)
  return engine.bytes()
}

it('takes the memory of all of its patterns together', () => {
  expect(bytesOf()).toBe(0)
  expect(bytesOf('a', '^b{9}$')).toBe(bytesOf('a') + bytesOf('^b{9}$'))
})

it('takes more for a class of many characters, and most for one of Unicode, or for its opposite', () => {
  const plain = bytesOf('^a{9}$')
  const written = bytesOf('^[acegikmoqsuwy]{9}$')
  const ofUnicode = [String.raw`^\p{L}{9}$`, String.raw`^\P{L}{9}$`].map((one) => bytesOf(one))
  expect(written).toBeGreaterThan(plain)
  for (const bytes of ofUnicode) expect(bytes).toBeGreaterThan(10 * written)
})

it('keeps of what it has matched what it says at most, and of plain texts all', () => {
  const compiled = vi.spyOn(RE2JS, 'compile')
  const engine = linearPatterns(() => new Fuel())
  const [hungry, plain] = [engine('[ab]*a[ab]{20}c'), engine('[a-z]+@[a-z]+')]
  const states = compiled.mock.results.map(({ value }) => value.re2().dfa)
  for (let seed = 1; seed <= 3; seed++) expect(hungry.test(letters(seed))).toBe(false)
  expect(plain.test('who@where')).toBe(true)
  const [ofHungry = 0, ofPlain = 0] = states.map((dfa) => dfa.stateBudget - dfa.memBudget)
  expect(ofHungry).toBeLessThan(engine.keptBytes())
  expect(ofPlain).toBeGreaterThan(0)
  expect(hungry.test(`${'a'.repeat(21)}c`)).toBe(true)
})

it('counts nothing for what RE2 needs no states for', () => {
  const engine = linearPatterns(() => new Fuel())
  expect(engine('^[a-z]+$').test('abc')).toBe(true)
  expect(engine.keptBytes()).toBe(0)
})

/** RE2 needs another state for nearly each of them; with `c`, as it looks for that first. */
function letters(seed: number): string {
  let bits = seed
  const next = () => {
    bits = (Math.imul(bits, 1_103_515_245) + 12_345) & 0x7fffffff
    return (bits >> 16) % 2 === 0 ? 'a' : 'b'
  }
  return `c${Array.from({ length: 3_000 }, next).join('')}`
}
