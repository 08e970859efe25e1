import { expect, test } from 'vitest'
import { OjsError } from '../src/errors.ts'
import { parsePush } from '../src/schemas/requests/validator.ts'

function messageAbout(member: string): string {
  return errorAbout(member).message
}

function errorAbout(member: string): OjsError {
  try {
    parsePush({ type: 'a.b', args: [], options: { retry: { [member]: 1 } } })
  } catch (error) {
    if (error instanceof OjsError) return error
  }
  throw new Error('it was taken')
}

// Log lines and terminals show these messages, and clients choose the names of members in them.
test('the message of an error has no control characters and no line breaks', () => {
  const message = messageAbout('\u001b[2J\r\nall is well\u2028\u202e\ud800')
  expect(message).toBe(
    "The 'options.retry.\ufffd[2J\ufffd\ufffdall is well\ufffd\ufffd\ufffd' field is not known.",
  )
  const { stack } = new OjsError('invalid_request', 'first\nsecond')
  expect(stack).toMatch(/^OjsError: first\ufffdsecond\n/)
})

test('the message of an error, and its field, are limited in length', () => {
  const { message, details } = errorAbout('x'.repeat(1_000_000))
  expect(message.length).toBeLessThanOrEqual(4_096)
  expect(details?.['field']).toBe(`options.retry.${'x'.repeat(286)}`)
})
