import { describe, expect, it } from 'vitest'
import { parentResults, type StepResult } from '../../src/job/workflow-results.ts'

const result = (text: string, jobId = 'j'): StepResult => ({
  jobId,
  text,
  bytes: Buffer.byteLength(text),
})
const sized = (bytes: number, jobId: string) => result(`"${'x'.repeat(bytes - 2)}"`, jobId)
const none: StepResult = { jobId: 'j', text: null, bytes: 0 }
const names = new Map([
  [0, 'a'],
  [1, '__proto__'],
])
const reference = (id: string, bytes: number) => ({
  result_ref: `/ojs/v1/jobs/${id}`,
  result_size_bytes: bytes,
  result_content_type: 'application/json',
})

describe('parent results', () => {
  it('are a list, with nested lists for parallel jobs', () => {
    const results = new Map([
      [0, result('{"x":1}')],
      [1, none],
      [2, result('3')],
    ])
    expect(parentResults([0, [1, 2], 9], results, names)).toBe('[{"x":1},[null,3],null]')
    expect(parentResults([], results, names)).toBe('[]')
  })

  it('are an object by step id, for any id', () => {
    const results = new Map([
      [0, result('1')],
      [1, result('2')],
    ])
    expect(parentResults({ steps: [0, 1] }, results, names)).toBe('{"a":1,"__proto__":2}')
    expect(parentResults({ steps: [] }, results, names)).toBe('{}')
  })

  it('contain results of up to 64 KiB, and references to larger ones', () => {
    const results = new Map([
      [0, sized(65_536, 'fits')],
      [1, sized(65_537, 'large')],
      [2, { jobId: 'unread', text: null, bytes: 900_000 }],
    ])
    const [fits, large, unread] = JSON.parse(parentResults([0, 1, 2], results, names))
    expect(fits).toHaveLength(65_534)
    expect([large, unread]).toEqual([reference('large', 65_537), reference('unread', 900_000)])
  })

  it('contain up to 1 MiB together, the nearest results first', () => {
    const inputs = Array.from({ length: 20 }, (_, i) => i)
    const results = new Map(inputs.map((i) => [i, sized(65_536, `j${i}`)]))
    const shown = JSON.parse(parentResults(inputs, results, names))
    expect(shown.slice(0, 4)).toEqual(inputs.slice(0, 4).map((i) => reference(`j${i}`, 65_536)))
    for (const text of shown.slice(4)) expect(text).toHaveLength(65_534)
  })
})
