import { expect, it } from 'vitest'
import { Fuel } from '../../src/schemas/fuel.ts'
import { linearPatterns } from '../../src/schemas/pattern.ts'

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
