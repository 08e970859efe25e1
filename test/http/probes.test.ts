import { beforeEach, expect, test, vi } from 'vitest'
import { health } from '../../src/operations/health.ts'
import { openDoor } from './door.ts'
import { request } from './raw-client.ts'

vi.mock('../../src/operations/health.ts')

const HEALTH = { status: 'ok', warnings: [] } as unknown as Awaited<
  ReturnType<typeof health>
>['body']

beforeEach(() => {
  vi.mocked(health).mockResolvedValue({ healthy: true, body: HEALTH })
})

const READY = ['/ready', '/readyz']
const ALIVE = ['/livez', '/healthz']

test.each([...READY, ...ALIVE])('GET %s is 200 while a PUSH would be accepted', async (path) => {
  const door = await openDoor()
  expect(await door.ask(request('GET', path))).toMatchObject({
    status: 200,
    body: '{"status":"ok"}',
  })
})

test.each(READY)('GET %s is 503 while a PUSH would fail', async (path) => {
  vi.mocked(health).mockResolvedValue({ healthy: false, body: HEALTH })
  const door = await openDoor()
  const answered = { status: 503, body: '{"status":"degraded"}' }
  expect(await door.ask(request('GET', path))).toMatchObject(answered)
})

test.each(ALIVE)('GET %s is 200 even if a PUSH would fail', async (path) => {
  vi.mocked(health).mockResolvedValue({ healthy: false, body: HEALTH })
  const door = await openDoor()
  expect((await door.ask(request('GET', path))).status).toBe(200)
})

test('GET /health answers as /ojs/v1/health', async () => {
  const door = await openDoor()
  const [short, long] = await Promise.all(
    ['/health', '/ojs/v1/health'].map((path) => door.ask(request('GET', path))),
  )
  expect(short?.body).toBe(long?.body)
})

test('a server that stops says so to the probes that have arrived; it is alive all the same', async () => {
  const door = await openDoor()
  const [ready, alive] = [await door.client(), await door.client()]
  const ask = () => {
    ready.send(request('GET', '/readyz'))
    alive.send(request('GET', '/livez'))
  }
  ask()
  expect((await ready.answer()).status).toBe(200)
  expect((await alive.answer()).status).toBe(200)
  // The server has not read them yet.
  ask()
  const stopped = door.server.stop(new AbortController().signal)
  expect(await ready.answer()).toMatchObject({ status: 503, body: '{"status":"draining"}' })
  expect((await alive.answer()).status).toBe(200)
  await stopped
})

test('the probes have the headers of a request limit, and are never refused', async () => {
  const rateLimit = { limit: 1, windowMs: 60_000 }
  const door = await openDoor(10_000, { access: { apiKeys: [], corsOrigins: [], rateLimit } })
  for (const path of [...READY, ...ALIVE, '/health', '/ojs/v1/health', '/readyz']) {
    const { status, headers } = await door.ask(request('GET', path))
    expect({ path, status, left: headers['x-ratelimit-remaining'] }).toEqual({
      path,
      status: 200,
      left: '1',
    })
  }
})
