import { describe, expect, test } from 'vitest'
import type { AccessConfig } from '../../src/http/access-config.ts'
import { answer } from '../../src/http/answer.ts'
import { newApiKey, parseApiKeys } from '../../src/http/api-keys.ts'
import type { Route } from '../../src/http/route.ts'
import { openDoor } from './door.ts'
import { errorOf, serve } from './frame.ts'
import { type RawAnswer, request } from './raw-client.ts'

const OPEN: Omit<AccessConfig, 'tls'> = { apiKeys: [], corsOrigins: [], rateLimit: undefined }
const LISTED = { ...OPEN, corsOrigins: ['https://dash.example.com:8443'] }
const FOREIGN = 'evil.example:8080'

/** What the handlers were reached with. */
function world() {
  const reached: string[] = []
  const route = (method: Route['method'], path: string): Route => ({
    method,
    path,
    ...(path === '/open' && { access: 'anybody' }),
    handle(_request, response) {
      reached.push(method)
      answer(response, 200, '{}')
    },
  })
  const routes = [
    route('GET', '/thing'),
    route('POST', '/thing'),
    route('DELETE', '/thing'),
    route('GET', '/open'),
  ]
  return { reached, routes }
}

function refusedAsForeign(result: RawAnswer, received: string): void {
  expect(result.status).toBe(403)
  expect(errorOf(result)).toMatchObject({
    code: 'x_forbidden',
    message: expect.stringMatching(/127\.0\.0\.1.*OJS_CORS_ORIGINS.*OJS_API_KEYS/),
    details: { reason: 'host', field: 'Host', received },
  })
}

describe('a gateway that only this machine reaches, without keys and TLS, asked for', () => {
  const ours = [
    ...['localhost', 'LOCALHOST:8080', 'localhost.', 'app.localhost:8080', 'App.LocalHost.'],
    ...['127.0.0.1', '127.0.0.1:8080', '127.1', '192.168.1.7:80', '[::1]', '[::1]:8080'],
    ...['[::ffff:127.0.0.1]:80', 'gateway', 'my_gateway:8080', 'GATEWAY.', ''],
    ...['host.docker.internal:8080', 'box.local', 'a.b.test', 'BOX.LOCAL.:1'],
  ]
  test.each(ours)('%j lets everybody in', async (host) => {
    const { routes, reached } = world()
    const frame = await serve(routes)
    await frame.ask(request('GET', '/open', { Host: '10.0.0.1' }))
    reached.length = 0
    for (const method of ['GET', 'POST', 'DELETE']) {
      expect((await frame.ask(request(method, '/thing', { Host: host }))).status).toBe(200)
    }
    expect(reached).toEqual(['GET', 'POST', 'DELETE'])
  })

  const foreign = [
    ...['evil.example', 'EVIL.example:8080', 'evil.example.', '127.0.0.1.evil.example'],
    ...['localhost.evil.example', 'evil.example..', 'notlocalhost.example', 'evil.mylocal'],
    ...[
      'dash.example.com',
      '[evil.example]',
      'evil.example:80:80',
      'x.xn--p1ai',
      'localhost@e.com',
    ],
  ]
  test.each(foreign)('%j lets nobody in', async (host) => {
    const { routes, reached } = world()
    const frame = await serve(routes)
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
      refusedAsForeign(await frame.ask(request(method, '/thing', { Host: host })), host)
    }
    expect((await frame.ask(request('HEAD', '/thing', { Host: host }))).status).toBe(403)
    refusedAsForeign(await frame.ask(request('GET', '/nowhere', { Host: host })), host)
    expect(reached).toEqual([])
  })

  test('of an absolute target its own host counts, not the header', async () => {
    const { routes, reached } = world()
    const frame = await serve(routes)
    const asked = (target: string, host?: string) =>
      frame.ask(request('GET', `http://${target}/thing`, { Host: host }))
    refusedAsForeign(await asked(FOREIGN, 'localhost'), FOREIGN)
    expect(reached).toEqual([])
    expect((await asked('localhost', FOREIGN)).status).toBe(200)
    expect(errorOf(await asked('localhost')).details).toMatchObject({ field: 'Host' })
  })

  test('a name without end shows the beginning of it', async () => {
    const frame = await serve(world().routes)
    const host = `${'a.'.repeat(100)}example`
    refusedAsForeign(await frame.ask(request('GET', '/thing', { Host: host })), host.slice(0, 100))
  })

  test('nothing, as HTTP/1.0 does, lets in', async () => {
    const frame = await serve(world().routes)
    expect((await frame.ask('GET /thing HTTP/1.0\r\n\r\n')).status).toBe(200)
  })

  test.each(['GET', 'HEAD'])('any name answers what is open to all, %s', async (method) => {
    const frame = await serve(world().routes)
    expect((await frame.ask(request(method, '/open?x=1', { Host: FOREIGN }))).status).toBe(200)
  })

  test('any name answers manifest, of the real endpoints, and not events', async () => {
    const door = await openDoor()
    const asked = (path: string) => door.ask(request('GET', path, { Host: FOREIGN }))
    expect((await asked('/ojs/manifest')).status).toBe(200)
    refusedAsForeign(await asked('/ojs/v1/events'), FOREIGN)
  })

  test('the host of a listed origin lets in, whatever the port', async () => {
    const frame = await serve(world().routes, { access: LISTED })
    const asked = (host: string) => frame.ask(request('GET', '/thing', { Host: host }))
    expect((await asked('Dash.example.com.:8080')).status).toBe(200)
    refusedAsForeign(await asked('dash.example.com.evil'), 'dash.example.com.evil')
    refusedAsForeign(await asked('www.dash.example.com'), 'www.dash.example.com')
  })
})

describe('no name is foreign', () => {
  const ask = request('GET', '/thing', { Host: FOREIGN })

  test.each(['0.0.0.0', '::'])('where others reach it, as the operator wants, %s', async (host) => {
    expect((await (await serve(world().routes, { host })).ask(ask)).status).toBe(200)
  })

  test('where a key is needed', async () => {
    const { entry } = newApiKey('ops', 'admin')
    const access = { ...OPEN, apiKeys: parseApiKeys(entry, []) }
    expect((await (await serve(world().routes, { access })).ask(ask)).status).toBe(401)
  })
})
