import { expect, test } from 'vitest'
import { parseRegister } from '../../../src/schemas/requests/register.ts'

const body = { uri: 'urn:ojs:schema:a', type: 'a', version: 1, schema: {} }

test.each(['urn:ojs:schema:a', 'https://example.org/a.json', 'urn:ü:\u{1f600}'])(
  'a schema may have the URI %s',
  (uri) => {
    expect(parseRegister({ ...body, uri })).toMatchObject({ uri })
  },
)

test.each([
  '',
  'a',
  'urn:',
  'urn:a b',
  'urn:a\0b',
  'urn:a\ud83d',
  'urn:<a>',
  `urn:${'a'.repeat(2_045)}`,
])('a schema may not have the URI %j', (uri) => {
  expect(() => parseRegister({ ...body, uri })).toThrow("'uri'")
})
