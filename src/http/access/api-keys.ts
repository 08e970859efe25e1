/** API keys and their roles: made, parsed from `OJS_API_KEYS`, and found by the hash of a bearer token. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { isQueuePattern, type QueueScope } from '../../job/queue-scope.ts'

/** The roles of keys. `access` of each route lists the roles that it serves; `admin` may call every route. */
export const ROLES = ['producer', 'worker', 'reader', 'operator', 'admin'] as const
export type Role = (typeof ROLES)[number]

/** A key as the gateway knows it: by its hash, which is of no use to readers of the configuration. */
export interface ApiKey {
  /** The key's owner, for log lines. Two keys may share a name while one replaces the other. */
  readonly name: string
  readonly role: Role
  readonly sha256: Buffer
  /** Absent: all queues. */
  readonly queues?: QueueScope
}

/** 256 bits. The prefix makes a key recognisable where it does not belong, e.g. in a repository. */
const KEY_BYTES = 32
const KEY_PREFIX = 'ojs_'
/** At most 40 characters, shorter than a hash, so that a misplaced hash is never accepted as a name. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,39}$/i
const SHA256 = /^[0-9a-f]{64}$/i
const KEYS_PER_NAME = 2
/** The fourth part of an entry begins with this. */
export const QUEUES = 'queues='

/** Creates a key, and the entry for `OJS_API_KEYS` that admits it. `queues` empty: for all. */
export function newApiKey(
  name: string,
  role: Role,
  queues: QueueScope = [],
): { key: string; entry: string } {
  const key = KEY_PREFIX + randomBytes(KEY_BYTES).toString('base64url')
  const scope = queues.length > 0 ? `:${QUEUES}${queues.join()}` : ''
  return { key, entry: `${name}:${role}:${hashOf(key).toString('hex')}${scope}` }
}

export function isKeyName(name: string): boolean {
  return NAME.test(name)
}

export function isRole(text: string): text is Role {
  return ROLES.some((role) => role === text)
}

/**
 * Parses `OJS_API_KEYS`: `name:role:sha256hex,…`, each perhaps with `:queues=a,b.*`; empty = no keys. Adds a line per mistake, which gives only
 * the entry's number: any part of the entry may be a key that was put in the wrong place.
 */
export function parseApiKeys(text: string, mistakes: string[]): ApiKey[] {
  if (text === '') return []
  const entries = entriesIn(text)
  const keys: ApiKey[] = []
  for (const [i, entry] of entries.entries()) {
    const parsed = parseEntry(entry)
    const mistake = typeof parsed === 'string' ? parsed : clash(parsed, keys)
    if (mistake !== undefined) mistakes.push(`OJS_API_KEYS, entry ${i + 1}: ${mistake}`)
    else if (typeof parsed !== 'string') keys.push(parsed)
  }
  return keys
}

/** Commas separate entries, and the queues of an entry, which have no colon. */
export function entriesIn(text: string): string[] {
  const entries: string[] = []
  for (const part of text.split(',')) {
    const last = entries.at(-1)
    if (last?.includes(`:${QUEUES}`) && !part.includes(':')) {
      entries[entries.length - 1] = `${last},${part.trim()}`
    } else entries.push(part.trim())
  }
  return entries
}

function parseEntry(entry: string): ApiKey | string {
  const [name = '', role = '', hash = '', scope, ...more] = entry.split(':')
  if (entry.includes(KEY_PREFIX)) return 'contains a key instead of its SHA-256'
  const isScoped = scope?.startsWith(QUEUES) ?? false
  if (hash === '' || (scope !== undefined && !isScoped) || more.length > 0) {
    return 'must be name:role:sha256hex or name:role:sha256hex:queues=a,b.*'
  }
  if (!isKeyName(name)) return 'the name must be 1 to 40 characters of a-z, 0-9, ., _ and -'
  if (!isRole(role)) return `the role must be one of ${ROLES.join(', ')}`
  if (!SHA256.test(hash)) return 'the third part must be the 64 hexadecimal digits of a SHA-256'
  const key = { name, role, sha256: Buffer.from(hash, 'hex') }
  if (scope === undefined) return key
  const queues = scope.slice(QUEUES.length).split(',')
  return queues.every(isQueuePattern)
    ? { ...key, queues }
    : 'after queues= must come names of queues, or their beginnings with * at the end'
}

function clash(key: ApiKey, others: readonly ApiKey[]): string | undefined {
  if (others.some(({ sha256 }) => sha256.equals(key.sha256)))
    return 'an earlier entry has the same key'
  const namesakes = others.filter(({ name }) => name === key.name)
  if (namesakes.some(({ role }) => role !== key.role))
    return 'an earlier entry of this name has another role'
  return namesakes.length >= KEYS_PER_NAME
    ? `a name may have at most ${KEYS_PER_NAME} keys`
    : undefined
}

/** RFC 6750 §2.1; the scheme without regard to case (RFC 9110 §11.1). */
const BEARER = /^bearer +([\w.~+/-]+=*) *$/i

/** Finds the key of an `Authorization` header. `unknown`: the header has a token which matches no key. */
export function identify(
  keys: readonly ApiKey[],
  authorization: string | undefined,
): ApiKey | 'missing' | 'unknown' {
  const token = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]
  if (token === undefined) return 'missing'
  const presented = hashOf(token)
  let found: ApiKey | undefined
  // Compare with every key, even after a match, so that the time reveals neither which key matched nor how
  // closely.
  for (const key of keys) if (timingSafeEqual(key.sha256, presented)) found = key
  return found ?? 'unknown'
}

/** A fast hash, since each request pays for it, and 256 random bits cannot be guessed anyway. */
function hashOf(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}
