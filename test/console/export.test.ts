import { expect, test } from 'vitest'
import type { JobItem } from '../../src/console/api/openapi.ts'
import { CSV_HEAD, csvLine } from '../../src/console/pages/jobs/export/csv.ts'

const JOB: JobItem = {
  id: '0197',
  type: 'email.send',
  queue: 'mail',
  state: 'discarded',
  priority: -5,
  attempt: 3,
  max_attempts: 3,
  tags: ['eu', 'big'],
  created_at: '2026-01-01T00:00:00.000Z',
  enqueued_at: '2026-01-01T00:00:00.000Z',
}

/** A reader of RFC 4180, written from its grammar: cells of one line. */
function cellsOf(line: string): string[] {
  expect(line.endsWith('\r\n')).toBe(true)
  const cells = [...line.slice(0, -2).matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",\r\n]*))/g)]
  expect(cells.map(([whole]) => whole).join('')).toBe(line.slice(0, -2))
  return cells.map(([, quoted, plain = '']) => quoted?.replaceAll('""', '"') ?? plain)
}

const cell = (job: Partial<JobItem>, name: string) =>
  cellsOf(csvLine({ ...JOB, ...job }))[cellsOf(CSV_HEAD).indexOf(name)]

test('a job is a line with a cell for each column', () => {
  expect(cellsOf(csvLine(JOB))).toHaveLength(cellsOf(CSV_HEAD).length)
  expect(cell({}, 'id')).toBe('0197')
  expect(cell({}, 'priority')).toBe('-5')
  expect(cell({}, 'tags')).toBe('eu big')
  expect(cell({}, 'worker_id')).toBe('')
  expect(cell({ args: [{ a: 'x,"y"' }] }, 'args')).toBe('[{"a":"x,\\"y\\""}]')
})

test('commas, quotes and lines stay in their cell', () => {
  for (const message of ['a,b', 'say "no"', 'two\r\nlines', ' spaces ', 'a;b', '', '🐇']) {
    expect(cell({ error: { message } as JobItem['error'] & object }, 'error_message')).toBe(message)
  }
})

test('what a spreadsheet would take for a formula is a text', () => {
  const formulas = [
    '=1+1',
    '+1',
    '-1+cmd|x',
    '@SUM(A1)',
    '\t=1',
    '\r=1',
    ' =1',
    '\ufeff=1',
    '＝1',
    '|x',
    '%x',
  ]
  for (const message of formulas) {
    const shown = cell({ error: { message } as JobItem['error'] & object }, 'error_message')
    expect(shown).toBe(`'${message}`)
  }
  expect(cell({ type: 'a=b' }, 'type')).toBe('a=b')
})
