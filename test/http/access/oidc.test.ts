import { expect, test } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { newApiKey } from '../../../src/http/access/api-keys.ts'
import { parseOidc } from '../../../src/http/access/oidc/oidc-config.ts'
import { Seal } from '../../../src/http/access/oidc/pending.ts'
import { callerOf } from '../../../src/http/access/oidc/person.ts'
import {
  CLIENT,
  ID_TOKEN_SECONDS,
  type OidcProvider,
  startOidcProvider,
} from '../../support/oidc/provider.ts'
import { signInAt } from '../../support/oidc/visitor.ts'
import { forAll } from '../../support/time/late.ts'
import { openDoor } from '../door.ts'
import type { Frame } from '../frame.ts'

const made = newApiKey('ops', 'operator')
const provider = forAll(
  () => startOidcProvider(),
  (each) => each.close(),
)
const telling = forAll(
  () => startOidcProvider({ areInIdToken: true }),
  (each) => each.close(),
)

/** A gateway's door that takes sign-ins of this provider. */
async function door(of: OidcProvider, more: Record<string, string> = {}): Promise<Frame> {
  const { config } = readConfig({ OJS_API_KEYS: made.entry, ...of.variables, ...more })
  const clock = { now: Date.now, wall: Date.now }
  return openDoor(10_000, { access: config.access }, {}, { clock })
}

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const pageOf = ({ url }: Frame) => `${url}/console/`

async function begin(frame: Frame, page = pageOf(frame), headers: Record<string, string> = {}) {
  const path = `/ojs/v1/session/login?page=${encodeURIComponent(page)}`
  const response = await fetch(`${frame.url}${path}`, { headers })
  const cookie = response.headers.get('set-cookie') ?? ''
  const body: Json = await response.json()
  return { response, cookie, body }
}

async function finish(frame: Frame, callback: string, cookie: string) {
  const response = await fetch(`${frame.url}/ojs/v1/session`, {
    method: 'POST',
    headers: {
      Origin: frame.url,
      'Content-Type': 'application/json',
      cookie: cookie.split(';')[0] ?? '',
    },
    body: JSON.stringify({ callback }),
  })
  const body: Json = await response.json()
  return { status: response.status, cookies: response.headers.getSetCookie(), body }
}

async function signIn(frame: Frame, name: string) {
  const { body, cookie } = await begin(frame)
  const callback = await signInAt(body.url, name)
  return { callback, cookie, ...(await finish(frame, callback, cookie)) }
}

test('a person of the provider gets the role of their group, until the ID token ends', async () => {
  const frame = await door(provider)
  const before = Date.now()
  const { status, body, cookies, callback } = await signIn(frame, 'ada')
  expect([status, body.name, body.role]).toEqual([201, 'oidc:ada', 'operator'])
  const ends = Date.parse(body.expires_at) - before
  expect(ends).toBeGreaterThan((ID_TOKEN_SECONDS - 5) * 1_000)
  expect(ends).toBeLessThan((ID_TOKEN_SECONDS + 60) * 1_000)
  expect(cookies).toEqual([
    'ojs_login=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict',
    expect.stringMatching(/^ojs_session=[\w-]{43}; Path=\/; .*HttpOnly; SameSite=Strict$/),
  ])
  const cookie = cookies[1]?.split(';')[0] ?? ''
  const metrics = await fetch(`${frame.url}/metrics`, { headers: { cookie } })
  expect(metrics.status).toBe(200)
  // Who it was is in the log; what lets in is not.
  const log = JSON.stringify(frame.log)
  expect(log).toContain('"subject":"ada"')
  const code = new URLSearchParams(callback).get('code') ?? ''
  expect(code).not.toBe('')
  for (const secret of [code, CLIENT.secret, cookie.split('=')[1] ?? '']) {
    expect(log).not.toContain(secret)
  }
})

test('claims may be in the ID token, names may be missing, and rules may be about queues', async () => {
  const frame = await door(telling)
  expect((await signIn(frame, 'nameless')).body).toMatchObject({ name: 'oidc:nameless' })
  expect((await signIn(frame, 'bob')).body).toMatchObject({ role: 'reader', queues: ['pay*'] })
})

test('the answer to a question that this browser did not ask is refused', async () => {
  const frame = await door(provider)
  const mine = await begin(frame)
  const theirs = await begin(frame)
  const callback = await signInAt(mine.body.url, 'ada')
  const reasonOf = async (given: string, cookie: string) => {
    const { status, body, cookies } = await finish(frame, given, cookie)
    expect(cookies).toEqual([])
    return [status, body.error.details.reason]
  }
  expect(await reasonOf(callback, '')).toEqual([401, 'no_login'])
  const other60 = mine.cookie[60] === 'A' ? 'B' : 'A'
  const forged = mine.cookie.slice(0, 60) + other60 + mine.cookie.slice(61)
  expect(await reasonOf(callback, forged)).toEqual([401, 'no_login'])
  // Another restart, another seal.
  const other = await begin(await door(provider))
  expect(await reasonOf(callback, other.cookie)).toEqual([401, 'no_login'])
  expect(await reasonOf(callback, theirs.cookie)).toEqual([503, 'provider'])
  const withState = callback.replace(/state=[^&]*/, 'state=another')
  expect(await reasonOf(withState, mine.cookie)).toEqual([503, 'provider'])
  expect((await finish(frame, callback, mine.cookie)).status).toBe(201)
  // A code is of use once.
  expect(await reasonOf(callback, mine.cookie)).toEqual([503, 'provider'])
})

test('whoever has no role, or was refused by the provider, is told so', async () => {
  const frame = await door(provider)
  const { status, body, cookies } = await signIn(frame, 'eve')
  expect([status, body.error.details, cookies]).toEqual([
    403,
    { reason: 'no_role', claim: 'groups' },
    [],
  ])
  const begun = await begin(frame)
  const state = new URL(begun.body.url).searchParams.get('state')
  const denied = await finish(
    frame,
    `?error=access_denied&error_description=secret&state=${state}&iss=${provider.issuer}`,
    begun.cookie,
  )
  expect([denied.status, denied.body.error.details]).toEqual([
    401,
    { reason: 'refused_by_provider', provider_error: 'access_denied' },
  ])
})

test('ten failed sign-ins in a minute are the limit of an address', async () => {
  const frame = await door(provider)
  for (let i = 0; i < 10; i++) expect((await finish(frame, '?code=x&state=y', '')).status).toBe(401)
  const { status } = await finish(frame, '?code=x&state=y', '')
  expect(status).toBe(429)
})

test('the question carries state, nonce and PKCE, and leads back to the page', async () => {
  const frame = await door(provider)
  const { body, cookie } = await begin(frame)
  const asked = Object.fromEntries(new URL(body.url).searchParams)
  expect(asked).toEqual({
    client_id: CLIENT.id,
    redirect_uri: pageOf(frame),
    response_type: 'code',
    scope: 'openid profile groups',
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge_method: 'S256',
    state: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.stringMatching(/^[\w-]{43}$/),
  })
  expect(cookie).toMatch(/^ojs_login=[\w-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Strict$/)
  expect(cookie).not.toContain(asked['state'])
  expect((await begin(frame)).body.url).not.toBe(body.url)
})

test('a set address counts more than the page, and has Secure cookies under HTTPS', async () => {
  const redirect = 'https://ops.example.com/jobs/console/'
  const frame = await door(provider, { OJS_OIDC_REDIRECT_URL: redirect })
  const { body, cookie } = await begin(frame)
  expect(new URL(body.url).searchParams.get('redirect_uri')).toBe(redirect)
  expect(cookie).toMatch(/^__Host-ojs_login=.*; Secure$/)
})

test('pages of others neither begin a sign-in nor name where it leads back to', async () => {
  const frame = await door(provider)
  const statusOf = async (page: string, headers = {}) =>
    (await begin(frame, page, headers)).response.status
  const ours = pageOf(frame)
  expect(await statusOf(ours, { 'Sec-Fetch-Site': 'same-origin' })).toBe(200)
  expect(await statusOf(ours, { 'Sec-Fetch-Site': 'cross-site' })).toBe(403)
  expect(await statusOf(ours, { Origin: 'https://evil.example.com' })).toBe(403)
  for (const page of [
    'https://evil.example.com/console/',
    `${frame.url}/other/`,
    `${frame.url}/console/?x=/console/`,
    `${frame.url}@evil.example.com/console/`,
    `javascript://${new URL(frame.url).host}/console/`,
    '',
  ]) {
    expect(await statusOf(page), page).toBe(400)
  }
})

test('without a provider there is no such sign-in, and nobody is offered it', async () => {
  const { config } = readConfig({ OJS_API_KEYS: made.entry })
  const frame = await openDoor(10_000, { access: config.access })
  expect((await begin(frame)).response.status).toBe(404)
  expect((await finish(frame, '?code=x&state=y', '')).status).toBe(404)
  const offered = async (of: Frame) => await (await fetch(`${of.url}/ojs/v1/session`)).json()
  expect(await offered(frame)).not.toHaveProperty('provider')
  const { host } = new URL(provider.issuer)
  expect(await offered(await door(provider))).toMatchObject({ provider: host, signed_in: false })
})

test('a provider that is away, or knows another secret, is a 503, with the reason in the log', async () => {
  const gone = await startOidcProvider()
  gone.close()
  const frame = await door(gone)
  const { response, body } = await begin(frame)
  expect([response.status, body.error.details]).toEqual([503, { reason: 'provider' }])
  expect(frame.log.find(({ level }) => level === 'warn')?.fields).toMatchObject({
    issuer: gone.issuer,
    reason: expect.stringContaining('ECONNREFUSED'),
  })
  const wrong = 'not-the-secret-of-the-console'
  const other = await door(provider, { OJS_OIDC_CLIENT_SECRET: wrong })
  expect((await signIn(other, 'ada')).status).toBe(503)
  const log = JSON.stringify(other.log)
  expect(log).toContain('invalid_client')
  expect(log).not.toContain(wrong)
})

test('a sealed login opens once it is asked for in time, and never if anything of it was changed', () => {
  const seal = new Seal()
  const pending = { state: 's', nonce: 'n', verifier: 'v', redirectUrl: 'http://x/', until: 100 }
  const closed = seal.close(pending)
  expect(seal.open(closed, 99)).toEqual(pending)
  expect(seal.open(closed, 100)).toBeUndefined()
  expect(seal.open('AAAA', 1)).toBeUndefined()
  for (let i = 0; i < closed.length; i += 7) {
    const other = closed[i] === 'A' ? 'B' : 'A'
    expect(seal.open(closed.slice(0, i) + other + closed.slice(i + 1), 1)).toBeUndefined()
  }
  expect(new Seal().open(closed, 1)).toBeUndefined()
})

test('the first rule that fits counts; a claim may be nested, or have dots in its name', () => {
  const rules = parsed('admins:admin,a:b:reader:queues=mail,team.*,*:worker')?.rules ?? []
  expect(rules).toEqual([
    { value: 'admins', role: 'admin' },
    { value: 'a:b', role: 'reader', queues: ['mail', 'team.*'] },
    { value: '*', role: 'worker' },
  ])
  const of = (claims: object, claim = 'groups') =>
    callerOf({ sub: 's', ...claims }, { rules, claim, nameClaim: 'name' })
  expect(of({ groups: ['x', 'a:b', 'admins'] })).toEqual({ name: 'oidc:s', role: 'admin' })
  expect(of({ groups: 'a:b' })).toMatchObject({ role: 'reader', queues: ['mail', 'team.*'] })
  expect(of({})).toMatchObject({ role: 'worker' })
  expect(of({ realm_access: { roles: ['admins'] } }, 'realm_access.roles')?.role).toBe('admin')
  const dotted = 'https://example.com/roles'
  expect(of({ [dotted]: ['admins'] }, dotted)?.role).toBe('admin')
  expect(of({ groups: ['constructor'] }, 'constructor.name')?.role).toBe('worker')
  expect(callerOf({ groups: ['no'] }, { rules: [], claim: 'groups', nameClaim: 'n' })).toBe(
    undefined,
  )
})

test('names are in one line, and never those of a key', () => {
  const rules = [{ value: '*', role: 'reader' }] as const
  const named = (name: unknown) =>
    callerOf({ sub: 's', name }, { rules, claim: 'groups', nameClaim: 'name' })?.name
  expect(named('a\nb\u202Ec')).toBe('oidc:a\ufffdb\ufffdc')
  expect(named('x'.repeat(1_000))).toHaveLength('oidc:'.length + 100)
  expect(named(' ')).toBe('oidc:s')
  expect(named({ toString: 1 })).toBe('oidc:s')
})

function parsed(roles: string) {
  const { config } = readConfig({
    OJS_API_KEYS: made.entry,
    OJS_OIDC_ISSUER: 'https://id.example.com',
    OJS_OIDC_CLIENT_ID: 'c',
    OJS_OIDC_ROLES: roles,
  })
  return config.access.oidc
}

test.each<[Record<string, string>, string]>([
  [{ OJS_OIDC_ISSUER: 'http://id.example.com' }, 'OJS_OIDC_ISSUER must be an https:// URL'],
  [{ OJS_OIDC_ISSUER: 'https://u:p@id.example.com' }, 'OJS_OIDC_ISSUER must be an https:// URL'],
  [{ OJS_API_KEYS: '' }, 'OJS_OIDC_ISSUER needs OJS_API_KEYS'],
  [{ OJS_OIDC_CLIENT_ID: '' }, 'OJS_OIDC_ISSUER needs OJS_OIDC_CLIENT_ID'],
  [{ OJS_OIDC_ISSUER: '' }, 'OJS_OIDC_CLIENT_ID needs OJS_OIDC_ISSUER'],
  [{ OJS_OIDC_ROLES: '' }, 'OJS_OIDC_ISSUER needs OJS_OIDC_ROLES'],
  [{ OJS_OIDC_ROLES: 'a:admin,b:boss' }, 'OJS_OIDC_ROLES, entry 2: must be value:role'],
  [{ OJS_OIDC_ROLES: 'a:reader:queues=B' }, 'OJS_OIDC_ROLES, entry 1: after queues='],
  [{ OJS_OIDC_SCOPE: 'profile' }, "OJS_OIDC_SCOPE must contain 'openid'"],
  [{ OJS_OIDC_REDIRECT_URL: 'https://x/' }, 'OJS_OIDC_REDIRECT_URL must be the address'],
])('%o is a mistake of the configuration', (given, mistake) => {
  const right = {
    OJS_API_KEYS: made.entry,
    OJS_OIDC_ISSUER: 'https://id.example.com',
    OJS_OIDC_CLIENT_ID: 'c',
    OJS_OIDC_CLIENT_SECRET: 'hush-hush',
    OJS_OIDC_ROLES: '*:reader',
  }
  expect(() => readConfig(right)).not.toThrow()
  const told = () => readConfig({ ...right, ...given })
  expect(told).toThrow(mistake)
  expect(told).not.toThrow('hush-hush')
})

test('parsing without an issuer reads nothing else', () => {
  const mistakes: string[] = []
  expect(parseOidc(() => '', true, mistakes)).toBeUndefined()
  expect(mistakes).toEqual([])
})
