import { describe, expect, it } from 'vitest'
import { Pieces } from '../../../src/http/message/body.ts'

describe('Pieces of a body', () => {
  it('are joined in their order', () => {
    const text = Array.from({ length: 1_000 }, (_, i) => `${i},`)
    const pieces = new Pieces()
    for (const piece of text) pieces.add(Buffer.from(piece))
    expect(pieces.take().toString()).toBe(text.join(''))
    expect(pieces.take().length).toBe(0)
  })

  it('are returned without copying if there is only one', () => {
    const pieces = new Pieces()
    const only = Buffer.from('{}')
    pieces.add(only)
    expect(pieces.take()).toBe(only)
  })

  it('are merged: 100,000 single bytes are kept in fewer than 1000 pieces', () => {
    const pieces = new Pieces()
    for (let i = 0; i < 100_000; i++) pieces.add(Buffer.from('x'))
    expect(pieces.count).toBeLessThan(1_000)
    expect(pieces.take().length).toBe(100_000)
  })

  it('are empty after clear()', () => {
    const pieces = new Pieces()
    for (let i = 0; i < 1_000; i++) pieces.add(Buffer.from('x'))
    pieces.clear()
    expect(pieces.count).toBe(0)
    expect(pieces.take().length).toBe(0)
  })
})
