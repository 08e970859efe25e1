import { describe, expect, test } from 'vitest'
import { newApiKey, parseApiKeys } from '../../../src/http/access/api-keys.ts'
import { answer } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import { openDoor } from '../door.ts'
import { errorOf, OPEN, serve } from '../frame.ts'
import { type RawAnswer, request } from '../raw-client.ts'

const LISTED = { ...OPEN, corsOrigins: ['https://dash.example.com:8443'] }
const FOREIGN = 'evil.example:8080'

/** Routes, and the methods with which their handlers were called. */
function recordingRoutes() {
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

describe('a gateway on a loopback address without keys and TLS', () => {
  const ours = [
    ...['localhost', 'LOCALHOST:8080', 'localhost.', 'app.localhost:8080', 'App.LocalHost.'],
    ...['127.0.0.1', '127.0.0.1:8080', '127.1', '192.168.1.7:80', '[::1]', '[::1]:8080'],
    ...['[::ffff:127.0.0.1]:80', 'gateway', 'my_gateway:8080', 'GATEWAY.', ''],
    ...['host.docker.internal:8080', 'box.local', 'a.b.test', 'BOX.LOCAL.:1'],
  ]
  test.each(ours)('serves requests with the Host %j', async (host) => {
    const { routes, reached } = recordingRoutes()
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
  test.each(foreign)('refuses requests with the foreign Host %j', async (host) => {
    const { routes, reached } = recordingRoutes()
    const frame = await serve(routes)
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
      refusedAsForeign(await frame.ask(request(method, '/thing', { Host: host })), host)
    }
    expect((await frame.ask(request('HEAD', '/thing', { Host: host }))).status).toBe(403)
    refusedAsForeign(await frame.ask(request('GET', '/nowhere', { Host: host })), host)
    expect(reached).toEqual([])
  })

  test('checks the host of an absolute target instead of the Host header', async () => {
    const { routes, reached } = recordingRoutes()
    const frame = await serve(routes)
    const asked = (target: string, host?: string) =>
      frame.ask(request('GET', `http://${target}/thing`, { Host: host }))
    refusedAsForeign(await asked(FOREIGN, 'localhost'), FOREIGN)
    expect(reached).toEqual([])
    expect((await asked('localhost', FOREIGN)).status).toBe(200)
    expect(errorOf(await asked('localhost')).details).toMatchObject({ field: 'Host' })
  })

  test('shows the first 100 characters of a long foreign Host', async () => {
    const frame = await serve(recordingRoutes().routes)
    const host = `${'a.'.repeat(100)}example`
    refusedAsForeign(await frame.ask(request('GET', '/thing', { Host: host })), host.slice(0, 100))
  })

  test('serves HTTP/1.0 requests without a Host', async () => {
    const frame = await serve(recordingRoutes().routes)
    expect((await frame.ask('GET /thing HTTP/1.0\r\n\r\n')).status).toBe(200)
  })

  test.each(['GET', 'HEAD'])(
    'serves endpoints that are open to anybody under any Host: %s',
    async (method) => {
      const frame = await serve(recordingRoutes().routes)
      expect((await frame.ask(request(method, '/open?x=1', { Host: FOREIGN }))).status).toBe(200)
    },
  )

  test('serves the manifest, but not the events, under any Host', async () => {
    const door = await openDoor()
    const asked = (path: string) => door.ask(request('GET', path, { Host: FOREIGN }))
    expect((await asked('/ojs/manifest')).status).toBe(200)
    refusedAsForeign(await asked('/ojs/v1/events'), FOREIGN)
  })

  test('serves requests with the Host of an origin in OJS_CORS_ORIGINS, with any port', async () => {
    const frame = await serve(recordingRoutes().routes, { access: LISTED })
    const asked = (host: string) => frame.ask(request('GET', '/thing', { Host: host }))
    expect((await asked('Dash.example.com.:8080')).status).toBe(200)
    refusedAsForeign(await asked('dash.example.com.evil'), 'dash.example.com.evil')
    refusedAsForeign(await asked('www.dash.example.com'), 'www.dash.example.com')
  })
})

describe('a gateway does not check the Host', () => {
  const ask = request('GET', '/thing', { Host: FOREIGN })

  test.each(['0.0.0.0', '::'])(
    'if it listens on %s, which other machines can reach',
    async (host) => {
      expect((await (await serve(recordingRoutes().routes, { host })).ask(ask)).status).toBe(200)
    },
  )

  test('if it has API keys', async () => {
    const { entry } = newApiKey('ops', 'admin')
    const access = { ...OPEN, apiKeys: parseApiKeys(entry, []) }
    expect((await (await serve(recordingRoutes().routes, { access })).ask(ask)).status).toBe(401)
  })
})
