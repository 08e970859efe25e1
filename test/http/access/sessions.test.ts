import { expect, test } from 'vitest'
import { newApiKey, parseApiKeys } from '../../../src/http/access/api-keys.ts'
import { Sessions } from '../../../src/http/access/sessions.ts'
import { openDoor } from '../door.ts'
import { errorOf, type Frame } from '../frame.ts'
import { type RawAnswer, request } from '../raw-client.ts'

const made = newApiKey('ops', 'operator')
const reading = newApiKey('eyes', 'reader', ['mail.*'])
const apiKeys = parseApiKeys(`${made.entry},${reading.entry}`, [])
const access = { apiKeys, corsOrigins: ['https://dash.example.com'], rateLimit: undefined }
const open = (options: object = {}) => openDoor(10_000, { access, ...options })

const HOST = 'gateway.example.com'
const ORIGIN = `http://${HOST}`
const PATH = '/ojs/v1/session'

function signIn(frame: Frame, key: string, headers: object = {}): Promise<RawAnswer> {
  const sent = { Host: HOST, Origin: ORIGIN, 'Content-Type': 'application/json', ...headers }
  return frame.ask(request('POST', PATH, sent, JSON.stringify({ key })))
}

function cookieIn(answer: RawAnswer): string {
  return String(answer.headers['set-cookie']).split(';')[0] ?? ''
}

async function who(frame: Frame, headers: object): Promise<Record<string, unknown>> {
  return JSON.parse((await frame.ask(request('GET', PATH, { Host: HOST, ...headers }))).body)
}

test('a key becomes a cookie, which stands for it until it is ended', async () => {
  const frame = await open()
  const answer = await signIn(frame, ` ${made.key} `)
  expect(answer.status).toBe(201)
  expect(answer.headers['set-cookie']).toMatch(
    /^ojs_session=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
  )
  expect(answer.body).not.toContain(made.key)
  const Cookie = cookieIn(answer)
  expect(await who(frame, { Cookie })).toMatchObject({
    needs_key: true,
    signed_in: true,
    name: 'ops',
    role: 'operator',
    expires_at: expect.any(String),
    operations: expect.arrayContaining(['POST /ojs/v1/admin/jobs/{id}/cancel']),
  })
  const metrics = () => frame.ask(request('GET', '/metrics', { Host: HOST, Cookie }))
  expect((await metrics()).status).toBe(200)
  const end = await frame.ask(request('DELETE', PATH, { Host: HOST, Cookie, Origin: ORIGIN }))
  expect([end.status, end.headers['set-cookie']]).toEqual([
    204,
    'ojs_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict',
  ])
  expect((await metrics()).status).toBe(401)
  expect(await who(frame, { Cookie })).toMatchObject({ signed_in: false })
})

test('nobody is told more than that a key is needed', async () => {
  const nobody = await who(await open(), {})
  expect(nobody).toMatchObject({ needs_key: true, signed_in: false })
  expect(nobody['operations']).not.toContain('GET /ojs/v1/admin/jobs')
  expect(nobody['operations']).toContain('GET /ojs/v1/health')
})

test('without API keys everybody may do everything', async () => {
  const frame = await openDoor()
  const everybody = await who(frame, { Host: `127.0.0.1:${frame.port}` })
  expect(everybody).toMatchObject({ needs_key: false, signed_in: true, role: 'admin' })
  expect(everybody['operations']).toContain('POST /ojs/v1/admin/jobs/bulk/delete')
})

test('what a key may not use is not among its operations', async () => {
  const frame = await open()
  const { operations, queues } = await who(frame, {
    Cookie: cookieIn(await signIn(frame, reading.key)),
  })
  expect(queues).toEqual(['mail.*'])
  expect(operations).toContain('GET /ojs/v1/admin/jobs')
  expect(operations).not.toContain('POST /ojs/v1/admin/jobs/{id}/cancel')
  // Its queues are some, and metrics are about all.
  expect(operations).not.toContain('GET /metrics')
})

test('the cookie counts in requests of our own pages only', async () => {
  const frame = await open()
  const Cookie = cookieIn(await signIn(frame, made.key))
  const statusOf = async (method: string, headers: object) => {
    const path = method === 'GET' ? '/metrics' : '/ojs/v1/admin/retention/unknown'
    return (await frame.ask(request(method, path, { Host: HOST, Cookie, ...headers }))).status
  }
  const write = async (headers: object) => {
    const sent = { Host: HOST, Cookie, ...headers }
    return (await frame.ask(request('DELETE', '/ojs/v1/jobs/x', sent))).status
  }
  expect(await statusOf('GET', {})).toBe(200)
  expect(await statusOf('GET', { 'Sec-Fetch-Site': 'same-origin' })).toBe(200)
  expect(await statusOf('GET', { 'Sec-Fetch-Site': 'same-site' })).toBe(401)
  expect(await statusOf('GET', { 'Sec-Fetch-Site': 'cross-site' })).toBe(401)
  expect(await write({})).toBe(401)
  expect(await write({ Origin: 'https://dash.example.com' })).toBe(401)
  expect(await write({ Origin: 'http://gateway.example.com:81' })).toBe(403)
  expect(await write({ Origin: ORIGIN })).not.toBe(401)
})

test.each(['https://dash.example.com', 'https://evil.example.com'])(
  'a page of %s cannot sign in',
  async (Origin) => {
    const answer = await signIn(await open(), made.key, { Origin })
    expect([answer.status, answer.headers['set-cookie']]).toEqual([403, undefined])
    expect(errorOf(answer).details).toMatchObject({ reason: 'origin' })
  },
)

test('over HTTPS the cookie is for this host and HTTPS alone', async () => {
  const answer = await signIn(await open(), made.key, { Origin: `https://${HOST}` })
  expect(answer.headers['set-cookie']).toMatch(/^__Host-ojs_session=.*; Secure$/)
})

test('wrong keys are limited, right ones are not', async () => {
  const frame = await open()
  for (let i = 0; i < 12; i++) expect((await signIn(frame, made.key)).status).toBe(201)
  for (let i = 0; i < 10; i++) expect((await signIn(frame, 'ojs_wrong')).status).toBe(401)
  const answer = await signIn(frame, made.key)
  expect([answer.status, answer.headers['retry-after']]).toEqual([429, '60'])
})

test('a session ends after twelve hours, and the oldest one when there are too many', () => {
  let now = 0
  const sessions = new Sessions(() => now)
  const [key] = apiKeys
  if (key === undefined) throw new Error('no key')
  const holding = (token: string) =>
    sessions.of({ method: 'GET', headers: { cookie: `a=b; ojs_session=${token}` } })
  const { token } = sessions.begin(key)
  expect(holding(token)?.key).toBe(key)
  expect(holding(`${token.slice(1)}A`)).toBeUndefined()
  now = 12 * 3_600_000 - 1
  expect(holding(token)).toBeDefined()
  now += 1
  expect(holding(token)).toBeUndefined()
  const first = sessions.begin(key).token
  for (let i = 0; i < 1_000; i++) sessions.begin(key)
  expect(sessions.size).toBe(1_000)
  expect(holding(first)).toBeUndefined()
})

test('the key of a request counts more than its cookie', async () => {
  const frame = await open()
  const Cookie = cookieIn(await signIn(frame, made.key))
  const bearer = { Authorization: `Bearer ${reading.key}` }
  expect(await who(frame, { Cookie, ...bearer })).toMatchObject({ role: 'reader' })
  expect(await who(frame, { Cookie, Authorization: 'Bearer ojs_wrong' })).toMatchObject({
    signed_in: false,
  })
})
