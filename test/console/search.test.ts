import { expect, test } from 'vitest'
import { completions } from '../../src/console/search/complete.ts'
import { filtersOf, KEYS, term } from '../../src/console/search/query.ts'

const ID = '01a22899-c457-7099-ad52-36d4d449b150'

test.each([
  ['', {}],
  ['state:retryable queue:mail', { state: 'retryable', queue: 'mail' }],
  // The same key twice: a list where the gateway takes one, else the last.
  ['tag:a state:active tag:b state:pending', { tag: 'a,b', state: 'active,pending' }],
  ['worker:w1 worker:w2', { worker_id: 'w2' }],
  ['error:smtp_error error-type:Refused', { error_code: 'smtp_error', error_type: 'Refused' }],
  ['meta.tenant:42 meta.a.b:x', { 'meta.tenant': '42', 'meta.a.b': 'x' }],
  // Older than that: created before.
  ['age>1h', { until: '1h' }],
  ['age<PT5M', { since: 'PT5M' }],
  ['error:"no such \\"mailbox\\""', { error_code: 'no such "mailbox"' }],
  ['args:{"customer":"c-812"}', { args: '{"customer":"c-812"}' }],
  ['email.send', { type: 'email.send*' }],
  ['email.*', { type: 'email.*' }],
  [ID.toUpperCase(), { id: ID }],
])('"%s" finds %o', (text, filters) => {
  expect(filtersOf(text)).toEqual({ filters, unknown: [] })
})

test.each(['nonsense:1', 'state>1', 'meta.:1', '"quoted"', 'age:1h', 'worker:', 'state:,'])(
  '"%s" is told as not understood',
  (text) => {
    expect(filtersOf(`queue:q ${text}`)).toEqual({ filters: { queue: 'q' }, unknown: [text] })
  },
)

test('a term finds the value that it was made of', () => {
  for (const value of ['plain', 'two words', 'a "quote"', 'a\\b c', 'at <n>: "x"', 'x\ty']) {
    expect(filtersOf(term('error', value)).filters, value).toEqual({ error_code: value })
  }
})

const known = { state: ['available', 'retryable'], queue: ['mail', 'two words'] }

test('a word that is begun is completed: keys, then what is known of the key', () => {
  expect(completions('', known)).toHaveLength(8)
  expect(completions('sta', known)).toEqual(['state:'])
  expect(completions('e', known)).toEqual(['error:', 'error-type:', 'error-pattern:'])
  expect(completions('queue:mail state:ABLE', known)).toEqual([
    'queue:mail state:available',
    'queue:mail state:retryable',
  ])
  expect(completions('queue:w', known)).toEqual(['queue:"two words"'])
  expect(completions('worker:w', known)).toEqual([])
})

test('what is complete is not offered again', () => {
  expect(completions('state:retryable', known)).toEqual([])
  const offered = Object.keys(KEYS).flatMap((key) => completions(`${key}:`, known))
  expect(offered).toHaveLength(4)
})
