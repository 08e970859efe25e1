import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  type ApiKey,
  identify,
  newApiKey,
  parseApiKeys,
} from '../../../src/http/access/api-keys.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const HASH = sha256('secret')

function parse(text: string): { keys: ApiKey[]; mistakes: string[] } {
  const mistakes: string[] = []
  return { keys: parseApiKeys(text, mistakes), mistakes }
}

describe('newApiKey', () => {
  test('makes a key of 256 bits, which its entry identifies', () => {
    const { key, entry } = newApiKey('shop', 'producer')
    expect(Buffer.from(key.replace('ojs_', ''), 'base64url')).toHaveLength(32)
    expect(entry).not.toContain(key)
    const { keys, mistakes } = parse(entry)
    expect(mistakes).toEqual([])
    expect(identify(keys, `Bearer ${key}`)).toMatchObject({ name: 'shop', role: 'producer' })
  })

  test('makes a different key each time', () => {
    const made = Array.from({ length: 100 }, () => newApiKey('a', 'admin').key)
    expect(new Set(made).size).toBe(100)
  })
})

describe('OJS_API_KEYS', () => {
  test('may be empty', () => expect(parse('')).toEqual({ keys: [], mistakes: [] }))

  test('may have several keys, two of one name, blanks and upper-case hex digits', () => {
    const text = `a:worker:${sha256('1')}, a:worker:${sha256('2').toUpperCase()} ,b.c:admin:${HASH}`
    const { keys, mistakes } = parse(text)
    expect(mistakes).toEqual([])
    expect(keys.map(({ name, role }) => `${name} ${role}`)).toEqual([
      'a worker',
      'a worker',
      'b.c admin',
    ])
  })

  test('may be for some queues, whose commas are not those between entries', () => {
    const text = `a:worker:${sha256('1')}:queues=a,b.*,c-1 , b:admin:${HASH},c:worker:${sha256('2')}:queues=*`
    const { keys, mistakes } = parse(text)
    expect(mistakes).toEqual([])
    expect(keys.map(({ name, queues }) => [name, queues])).toEqual([
      ['a', ['a', 'b.*', 'c-1']],
      ['b', undefined],
      ['c', ['*']],
    ])
    expect(parse(newApiKey('a', 'worker', ['x', 'y.*']).entry).keys[0]?.queues).toEqual([
      'x',
      'y.*',
    ])
  })

  const rows: [what: string, text: string, mistake: string][] = [
    ['no hash', 'a:worker', 'entry 1: must be name:role:sha256hex'],
    ['an empty entry', ',', 'entry 1: must be name:role:sha256hex'],
    ['an empty entry at the end', `a:worker:${HASH},`, 'entry 2: must be name:role:sha256hex'],
    ['a fourth part', `a:worker:${HASH}:x`, 'entry 1: must be name:role:sha256hex'],
    ['no queues', `a:worker:${HASH}:queues=`, 'entry 1: after queues='],
    ['an empty queue', `a:worker:${HASH}:queues=a,`, 'entry 1: after queues='],
    ['a star inside', `a:worker:${HASH}:queues=a,b*c`, 'entry 1: after queues='],
    ['a queue in capitals', `a:worker:${HASH}:queues=A`, 'entry 1: after queues='],
    ['a fifth part', `a:worker:${HASH}:queues=a:b`, 'entry 1: must be name:role'],
    ['no name', `:worker:${HASH}`, 'entry 1: the name'],
    ['a name that is too long', `${'a'.repeat(41)}:worker:${HASH}`, 'entry 1: the name'],
    ['the hash in front', `${HASH}:worker:a`, 'entry 1: the name'],
    ['a strange role', `a:${HASH}:${HASH}`, 'entry 1: the role must be one of producer, worker'],
    ['a short hash', `a:worker:${HASH.slice(1)}`, 'entry 1: the third part'],
    ['a long hash', `a:worker:${HASH}ab`, 'entry 1: the third part'],
    ['a key instead of its hash', `a:worker:ojs_${'x'.repeat(43)}`, 'entry 1: contains a key'],
    [
      'the same key twice',
      `a:worker:${HASH},b:admin:${HASH}`,
      'entry 2: an earlier entry has the same key',
    ],
    [
      'a name with two roles',
      `a:worker:${sha256('1')},a:admin:${sha256('2')}`,
      'entry 2: an earlier entry of this name has another role',
    ],
    [
      'three of one name',
      [1, 2, 3].map((i) => `a:worker:${sha256(String(i))}`).join(),
      'entry 3: a name may have at most 2 keys',
    ],
  ]
  test.each(rows)(
    'reports a mistake without showing keys or hashes: %s',
    (_what, text, mistake) => {
      const { mistakes } = parse(text)
      expect(mistakes.join()).toContain(`OJS_API_KEYS, ${mistake}`)
      expect(mistakes.join()).not.toMatch(/[0-9a-f]{20}|ojs_x/)
    },
  )
})

describe('identify', () => {
  const [old, young, other] = [1, 2, 3].map((i) => newApiKey(i === 3 ? 'b' : 'a', 'worker'))
  const { keys } = parse([old, young, other].map((made) => made?.entry).join())

  test('accepts both keys of one name, as while one replaces the other', () => {
    for (const made of [old, young]) {
      expect(identify(keys, `Bearer ${made?.key}`)).toMatchObject({ name: 'a' })
    }
    expect(identify(keys, `bearer  ${other?.key} `)).toMatchObject({ name: 'b' })
  })

  test.each([
    ['no header', undefined, 'missing'],
    ['an empty header', '', 'missing'],
    ['no token', 'Bearer', 'missing'],
    ['another scheme', 'Basic YTpi', 'missing'],
    ['two tokens', 'Bearer a b', 'missing'],
    ['a token that is no key', 'Bearer wrong', 'unknown'],
    ['a key that was cut', `Bearer ${old?.key.slice(0, -1)}`, 'unknown'],
    ['a key with another character behind it', `Bearer ${old?.key}x`, 'unknown'],
    ['the hash of a key', `Bearer ${old?.entry.split(':')[2]}`, 'unknown'],
    ['a scheme that only ends in Bearer', `XBearer ${old?.key}`, 'missing'],
  ])('does not accept %s', (_name, header, outcome) => {
    expect(identify(keys, header)).toBe(outcome)
  })

  test('does not accept a key whose hash differs in one bit', () => {
    const hash = Buffer.from(sha256('secret'), 'hex')
    hash[31] = (hash[31] ?? 0) ^ 1
    const { keys: near } = parse(`a:admin:${hash.toString('hex')}`)
    expect(identify(near, 'Bearer secret')).toBe('unknown')
  })
})
