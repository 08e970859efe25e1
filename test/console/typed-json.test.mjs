import { expect, test, vi } from 'vitest'

vi.stubGlobal('navigator', { languages: ['en'] })
const { typedJson } = await import('../../src/console/ui/typed-json.ts')
vi.unstubAllGlobals()

test.each([
  '[]',
  '[1, -2.50, 1e3, 0.1, -0, 1E+2, 0.000001, 1e21, 5e-324]',
  '[9007199254740991, 12345678901234567000]',
  '{"a": "9007199254740993, \\"1e400"}',
  '[0.30000000000000004]',
])('%s is taken', (text) => {
  expect(typedJson(text, 'not JSON')).toEqual(JSON.parse(text))
})

test.each(['9007199254740993', '1e400', '1e-400', '0.1234567890123456789', '-9007199254740993'])(
  'the number %s, which JavaScript would change, is refused by its name',
  (number) => {
    expect(() => typedJson(`[{"a": [1, ${number}]}]`, 'not JSON')).toThrow(number)
  },
)

test('what is no JSON is told so', () => {
  expect(() => typedJson('[1, ', 'not JSON')).toThrow('not JSON')
})
