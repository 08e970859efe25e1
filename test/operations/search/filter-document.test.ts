// A filter told back means what was asked for, to lists and to actions on many jobs.
import { expect, it } from 'vitest'
import { filterDocument, parseJobFilter } from '../../../src/operations/search/parse-filter.ts'

const WALL = Date.parse('2026-02-12T10:30:00.000Z')
const LATER = WALL + 86_400_000

const QUERY: Record<string, unknown> = {
  id: ['a', 'b', 'c'],
  state: ['retryable', 'discarded'],
  queue: 'one, two',
  type: 'mail.*',
  worker_id: ['w'],
  workflow_id: 'f',
  cron: 'c',
  error_code: 'full',
  error_type: 'Oops',
  error_pattern: 'mailbox <n>, full',
  priority: '-3',
  held: 'false',
  tag: ['eu', 'us'],
  args: ['1', '{"a":2}'],
  'meta.tenant': '7',
}
const TIMES = ['since', 'enqueued_since', 'enqueued_after', 'ended_since']
const ENDS = ['until', 'enqueued_until', 'enqueued_before', 'ended_until', 'older_than']

it.each(Object.entries(QUERY))('the filter %s is told as one text', (name, value) => {
  const told = filterDocument({ [name]: value }, WALL)
  expect(typeof told[name]).toBe('string')
  expect(parseJobFilter(told, LATER)).toEqual(parseJobFilter({ [name]: value }, WALL))
})

it.each([...TIMES, ...ENDS])('the filter %s is told as an instant, also of a day later', (name) => {
  for (const value of ['1h', '90', '2026-02-01T00:00:00Z']) {
    const told = filterDocument({ [name]: value }, WALL)
    expect(parseJobFilter(told, LATER)).toEqual(parseJobFilter({ [name]: value }, WALL))
  }
})

it.each([[['a,b']], [['a,b', 'c']], [[' eu ', 'us']]])(
  'the filter tag is told as a list if a value could not stand in a text: %j',
  (tag) => {
    const told = filterDocument({ tag }, WALL)
    expect(parseJobFilter(told, LATER).text.tags).toEqual(tag)
  },
)

it('the filter args stays one JSON text', () => {
  const args = '[{"customer":"c-1"}]'
  expect(filterDocument({ args }, WALL)).toEqual({ args })
})
