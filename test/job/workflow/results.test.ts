import { describe, expect, it } from 'vitest'
import { parentResults, ResultBudget, type StepResult } from '../../../src/job/workflow/results.ts'
import type { Inputs } from '../../../src/job/workflow/workflow.ts'

type Result = StepResult & { text: string | null }

const result = (text: string, jobId = 'j', id = ''): Result => ({
  id,
  jobId,
  text,
  bytes: Buffer.byteLength(text),
})
const sized = (bytes: number, jobId: string) => result(`"${'x'.repeat(bytes - 2)}"`, jobId)
const none: Result = { id: '', jobId: 'j', text: null, bytes: 0 }
const shown = (inputs: Inputs, results: ReadonlyMap<number, Result>) =>
  parentResults(inputs, results, new ResultBudget(), ({ text }) => text)
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
    expect(shown([0, [1, 2], 9], results)).toBe('[{"x":1},[null,3],null]')
    expect(shown([], results)).toBe('[]')
  })

  it('are an object by step id, for any id', () => {
    const results = new Map([
      [0, result('1', 'j', 'a')],
      [1, result('2', 'j', '__proto__')],
    ])
    expect(shown({ steps: [0, 1] }, results)).toBe('{"a":1,"__proto__":2}')
    expect(shown({ steps: [] }, results)).toBe('{}')
  })

  it('contain results of up to 64 KiB, and references to larger ones', () => {
    const results = new Map([
      [0, sized(65_536, 'fits')],
      [1, sized(65_537, 'large')],
      [2, { id: '', jobId: 'unread', text: null, bytes: 900_000 }],
    ])
    const [fits, large, unread] = JSON.parse(shown([0, 1, 2], results))
    expect(fits).toHaveLength(65_534)
    expect([large, unread]).toEqual([reference('large', 65_537), reference('unread', 900_000)])
  })

  it('contain up to 1 MiB together, the nearest results first', () => {
    const inputs = Array.from({ length: 20 }, (_, i) => i)
    const results = new Map(inputs.map((i) => [i, sized(65_536, `j${i}`)]))
    const texts = JSON.parse(shown(inputs, results))
    expect(texts.slice(0, 4)).toEqual(inputs.slice(0, 4).map((i) => reference(`j${i}`, 65_536)))
    for (const text of texts.slice(4)) expect(text).toHaveLength(65_534)
  })
})
