import { expect, it } from 'vitest'
import { lent } from '../../../src/broker/amqplib/shared-header-table.ts'
import { OJS_HEADERS } from '../../../src/broker/messages/headers.ts'

function present(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined))
}

it('lent() uses one table for every message, without the headers of the message before', () => {
  const first = { [OJS_HEADERS.queue]: 'a', [OJS_HEADERS.tags]: 'x,y', [OJS_HEADERS.native]: true }
  const second = { [OJS_HEADERS.queue]: 'b', [OJS_HEADERS.attempt]: { '!': 'int32', value: 2 } }
  const table = lent(first)
  expect(present(table)).toEqual(first)
  expect(lent(second)).toBe(table)
  expect(present(table)).toEqual(second)
})

it.each(['x-foreign', 'constructor', 'hasOwnProperty'])(
  'lent() leaves a table with the header %s alone',
  (name) => {
    lent({ [OJS_HEADERS.queue]: 'a' })
    const headers = { [OJS_HEADERS.queue]: 'b', [name]: 'kept' }
    expect(lent(headers)).toBe(headers)
    expect(headers).toEqual({ [OJS_HEADERS.queue]: 'b', [name]: 'kept' })
  },
)
