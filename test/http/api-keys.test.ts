import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { type ApiKey, identify, newApiKey, parseApiKeys } from '../../src/http/api-keys.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const HASH = sha256('secret')

function parse(text: string): { keys: ApiKey[]; mistakes: string[] } {
  const mistakes: string[] = []
  return { keys: parseApiKeys(text, mistakes), mistakes }
}

describe('a new key', () => {
  test('has 256 bits, and its entry lets it in', () => {
    const { key, entry } = newApiKey('shop', 'producer')
    expect(Buffer.from(key.replace('ojs_', ''), 'base64url')).toHaveLength(32)
    expect(entry).not.toContain(key)
    const { keys, mistakes } = parse(entry)
    expect(mistakes).toEqual([])
    expect(identify(keys, `Bearer ${key}`)).toMatchObject({ name: 'shop', role: 'producer' })
  })

  test('is another one each time', () => {
    const made = Array.from({ length: 100 }, () => newApiKey('a', 'admin').key)
    expect(new Set(made).size).toBe(100)
  })
})

describe('OJS_API_KEYS', () => {
  test('none', () => expect(parse('')).toEqual({ keys: [], mistakes: [] }))

  test('several, two of one name, blanks, upper-case digits', () => {
    const text = `a:worker:${sha256('1')}, a:worker:${sha256('2').toUpperCase()} ,b.c:admin:${HASH}`
    const { keys, mistakes } = parse(text)
    expect(mistakes).toEqual([])
    expect(keys.map(({ name, role }) => `${name} ${role}`)).toEqual([
      'a worker',
      'a worker',
      'b.c admin',
    ])
  })

  const rows: [what: string, text: string, mistake: string][] = [
    ['no hash', 'a:worker', 'entry 1: must be name:role:sha256hex'],
    ['nothing', ',', 'entry 1: must be name:role:sha256hex'],
    ['an empty entry at the end', `a:worker:${HASH},`, 'entry 2: must be name:role:sha256hex'],
    ['too much', `a:worker:${HASH}:x`, 'entry 1: must be name:role:sha256hex'],
    ['no name', `:worker:${HASH}`, 'entry 1: the name'],
    ['a name that is too long', `${'a'.repeat(41)}:worker:${HASH}`, 'entry 1: the name'],
    ['the hash in front', `${HASH}:worker:a`, 'entry 1: the name'],
    ['a strange role', `a:${HASH}:${HASH}`, 'entry 1: the role must be one of producer, worker'],
    ['a short hash', `a:worker:${HASH.slice(1)}`, 'entry 1: the third part'],
    ['a long hash', `a:worker:${HASH}ab`, 'entry 1: the third part'],
    ['the key for its hash', `a:worker:ojs_${'x'.repeat(43)}`, 'entry 1: holds a key'],
    [
      'the same key twice',
      `a:worker:${HASH},b:admin:${HASH}`,
      'entry 2: this key is there already',
    ],
    [
      'a name with two roles',
      `a:worker:${sha256('1')},a:admin:${sha256('2')}`,
      'entry 2: the name has another role above',
    ],
    [
      'three of one name',
      [1, 2, 3].map((i) => `a:worker:${sha256(String(i))}`).join(),
      'entry 3: more than 2 keys of one name',
    ],
  ]
  test.each(rows)('%s is a mistake that shows none of it', (_what, text, mistake) => {
    const { mistakes } = parse(text)
    expect(mistakes.join()).toContain(`OJS_API_KEYS, ${mistake}`)
    expect(mistakes.join()).not.toMatch(/[0-9a-f]{20}|ojs_x/)
  })
})

describe('whose key it is', () => {
  const [old, young, other] = [1, 2, 3].map((i) => newApiKey(i === 3 ? 'b' : 'a', 'worker'))
  const { keys } = parse([old, young, other].map((made) => made?.entry).join())

  test('while one key replaces another both are let in', () => {
    for (const made of [old, young]) {
      expect(identify(keys, `Bearer ${made?.key}`)).toMatchObject({ name: 'a' })
    }
    expect(identify(keys, `bearer  ${other?.key} `)).toMatchObject({ name: 'b' })
  })

  test.each([
    ['no header', undefined, 'missing'],
    ['an empty one', '', 'missing'],
    ['no token', 'Bearer', 'missing'],
    ['another scheme', 'Basic YTpi', 'missing'],
    ['two tokens', 'Bearer a b', 'missing'],
    ['a token that is no key', 'Bearer wrong', 'unknown'],
    ['a key that was cut', `Bearer ${old?.key.slice(0, -1)}`, 'unknown'],
    ['a key with more', `Bearer ${old?.key}x`, 'unknown'],
    ['the hash of a key', `Bearer ${old?.entry.split(':')[2]}`, 'unknown'],
    ['a scheme that only ends so', `XBearer ${old?.key}`, 'missing'],
  ])('%s', (_name, header, outcome) => {
    expect(identify(keys, header)).toBe(outcome)
  })

  test('every bit of the hash counts', () => {
    const hash = Buffer.from(sha256('secret'), 'hex')
    hash[31] = (hash[31] ?? 0) ^ 1
    const { keys: near } = parse(`a:admin:${hash.toString('hex')}`)
    expect(identify(near, 'Bearer secret')).toBe('unknown')
  })
})
