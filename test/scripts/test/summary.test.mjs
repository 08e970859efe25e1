import { expect, test } from 'vitest'
import { summary, withoutPassword } from '../../../scripts/test/summary.mjs'

test.each([
  ['amqp://guest:guest@127.0.0.1:5672/%2Fojs', 'amqp://127.0.0.1:5672/%2Fojs'],
  ['amqps://u:p%40ss@a/v?heartbeat=5,amqp://u:q@b', 'amqps://u@a/v?heartbeat=5, amqp://u@b'],
  ['amqp://guest:other@h', 'amqp://guest@h'],
  ['amqp://u:p:@s,s@host/v', 'amqp://u@host/v'],
  ['amqp://host/v', 'amqp://host/v'],
  ['AMQP://u:p@a/v, Amqps://u:q@b', 'AMQP://u@a/v, Amqps://u@b'],
])('withoutPassword hides the password of %s', (url, shown) => {
  expect(withoutPassword(url)).toBe(shown)
})

test('the summary names both addresses and a curl line without a key', () => {
  const text = summary('http://127.0.0.1:8081', { url: 'amqp://u:secret@h/v', origin: 'yours' })
  expect(text).toContain('http://127.0.0.1:8081/ojs/v1')
  expect(text).toContain('amqp://u@h/v')
  expect(text).toContain('curl http://127.0.0.1:8081/ojs/v1/jobs')
  expect(text).not.toContain('secret')
  expect(text).not.toContain('Authorization')
})

test('the summary has a curl line with a key when keys are set', () => {
  const broker = { url: 'amqp://h', origin: 'yours' }
  const text = summary('http://127.0.0.1:1', broker, undefined, { OJS_API_KEYS: 'a:admin:00' })
  expect(text).toContain('-H "Authorization: Bearer $OJS_API_KEY"')
})
