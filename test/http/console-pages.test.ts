import { existsSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import { build } from '../../scripts/build.mjs'
import { inRoot } from '../../scripts/paths.mjs'
import { openDoor } from './door.ts'
import { request } from './raw-client.ts'

/** `npm run check` builds nothing else. */
beforeAll(async () => {
  if (!existsSync(inRoot('dist', 'console', 'index.html'))) await build()
}, 300_000)

const ask = async (path: string, headers: object = {}, options: object = {}) => {
  const frame = await openDoor(10_000, options)
  return frame.ask(request('GET', path, { Host: `127.0.0.1:${frame.port}`, ...headers }))
}

test('a browser that opens the gateway is led to the console; a program is not', async () => {
  const led = await ask('/', { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' })
  expect([led.status, led.headers['location']]).toEqual([302, 'console/'])
  expect((await ask('/')).status).toBe(404)
  const slash = await ask('/console')
  expect([slash.status, slash.headers['location']]).toEqual([302, 'console/'])
})

test('the page may load and call its own host only, and is asked for each time', async () => {
  const { status, headers, body } = await ask('/console/')
  expect(status).toBe(200)
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers['cache-control']).toBe('no-cache')
  const policy = String(headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toMatch(/unsafe|https?:|\*|data:/)
  expect(policy).toContain("connect-src 'self';")
  const codecUrl = 'https://codec.example.com:8443/decode?key=1'
  const links = { consoleLinks: { traceUrl: null, codecUrl } }
  const withCodec = String((await ask('/console/', {}, links)).headers['content-security-policy'])
  expect(withCodec).toBe(
    policy.replace("connect-src 'self'", "connect-src 'self' https://codec.example.com:8443"),
  )
  // Relative addresses, nothing inline.
  expect(body).not.toMatch(/(?:src|href)="(?!\.\/assets\/)/)
  expect(body).not.toMatch(/<style|style=|<script(?![^>]*\bsrc=)|\son\w+=/)
})

test('its files are compressed and kept for ever', async () => {
  const { body } = await ask('/console/')
  const script = /src="\.\/(assets\/[\w.-]+\.js)"/.exec(body)?.[1]
  const plain = await ask(`/console/${script}`)
  expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable')
  expect(plain.headers['content-encoding']).toBeUndefined()
  const packed = await ask(`/console/${script}`, { 'Accept-Encoding': 'br, gzip' })
  expect(packed.headers['content-encoding']).toBe('gzip')
  const bytes = Number(packed.headers['content-length'])
  expect(bytes).toBeLessThan(Number(plain.headers['content-length']) / 2)
  expect(bytes).toBeLessThanOrEqual(250_000)
})

test.each([
  '/console/assets/none.js',
  '/console/assets/..%2Findex.html',
  '/console/assets/..%2F..%2Fmain.js',
  '/console/index.html',
])('%s is no file', async (path) => {
  expect((await ask(path)).status).toBe(404)
})

test('with OJS_CONSOLE=0 there is none', async () => {
  const off = { hasConsole: false }
  expect((await ask('/console/', {}, off)).status).toBe(404)
  expect((await ask('/', { Accept: 'text/html' }, off)).status).toBe(404)
})

test('a name that somebody could own does not get it from a gateway without keys', async () => {
  expect((await ask('/console/', { Host: 'evil.example.com' })).status).toBe(403)
})
