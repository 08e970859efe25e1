import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { answer } from '../../src/http/answer.ts'
import { readJson } from '../../src/http/body.ts'
import type { Route } from '../../src/http/route.ts'
import { readTls } from '../../src/http/tls.ts'
import { Authority, type Certificate } from '../support/certificates.ts'
import { EVENTUALLY, errorOf, serve, slowRoute } from './frame.ts'
import { request } from './raw-client.ts'

let authority: Authority
let strangers: Authority
let own: Certificate
beforeAll(() => {
  authority = new Authority()
  strangers = new Authority()
  own = authority.issue('gateway')
})
afterAll(() => {
  authority.remove()
  strangers.remove()
})

const PKCS8 = ['pkcs8', '-topk8', '-v2', 'aes-128-cbc', '-passout', 'pass:xyzxyz']

const ROUTES: Route[] = [
  {
    method: 'POST',
    path: '/echo',
    async handle(req, res) {
      answer(res, 200, JSON.stringify(await readJson(req, res, 10_000)))
    },
  },
  {
    method: 'GET',
    path: '/prototypes',
    handle(req, res) {
      // Express changes the prototype of what it does not know: `exchange.ts` says what that costs.
      const isOwn = Object.getPrototypeOf(req) === Reflect.get(req.app, 'request')
      answer(
        res,
        200,
        JSON.stringify({
          isOwn,
          isOwnToo: Object.getPrototypeOf(res) === Reflect.get(req.app, 'response'),
        }),
      )
    },
  },
]

const serveTls = (ca?: Buffer) =>
  serve(ROUTES, { tls: { cert: own.cert, key: own.key, ...(ca !== undefined && { ca }) } })

const failed = (reason: string) => ({
  level: 'warn',
  fields: { address: '127.0.0.1', reason },
  message: 'TLS handshake failed',
})

/** Resolves with the reason why there is no connection, or with its protocol. */
async function handshake(port: number, options: ConnectionOptions): Promise<string> {
  const socket: TLSSocket = connectTls({
    port,
    host: '127.0.0.1',
    ca: authority.ca.cert,
    ...options,
  })
  onTestFinished(() => void socket.destroy())
  return new Promise((resolve) => {
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    socket.on('close', () => resolve('closed'))
    // In TLS 1.3 a client learns that its certificate is refused after its own part is done.
    socket.on('secureConnect', () => socket.write(request('GET', '/prototypes')))
    socket.on('data', () => resolve(socket.getProtocol() ?? ''))
  })
}

describe('HTTPS', () => {
  test('the same answers, and the address says so', async () => {
    const frame = await serveTls()
    expect(frame.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    const client = await frame.client({ ca: authority.ca.cert })
    client.send(request('POST', '/echo', {}, '{"a":1}'))
    expect((await client.answer()).body).toBe('{"a":1}')
    client.send(request('GET', '/nowhere'))
    expect(errorOf(await client.answer()).code).toBe('not_found')
  })

  test('a certificate is proof of the name that a page came from', async () => {
    const frame = await serveTls()
    const client = await frame.client({ ca: authority.ca.cert })
    const own = { Origin: 'https://jobs.example', Host: 'jobs.example' }
    client.send(request('POST', '/echo', own, '{"a":1}'))
    expect((await client.answer()).status).toBe(200)
    client.send(request('POST', '/echo', { ...own, Origin: 'https://evil.example' }, '{"a":1}'))
    expect(errorOf(await client.answer()).code).toBe('x_forbidden')
  })

  test('requests and responses are born as what Express wants', async () => {
    const frame = await serveTls()
    const client = await frame.client({ ca: authority.ca.cert })
    client.send(request('GET', '/prototypes'))
    expect(JSON.parse((await client.answer()).body)).toEqual({ isOwn: true, isOwnToo: true })
  })

  test('what the parser refuses is answered too', async () => {
    const frame = await serveTls()
    const client = await frame.client({ ca: authority.ca.cert })
    client.send('garbage\r\n\r\n')
    expect((await client.answer()).status).toBe(400)
    expect(await client.closed()).toBe('')
  })

  test('a body that is too large is refused, and the client may read it', async () => {
    const frame = await serveTls()
    const client = await frame.client({ ca: authority.ca.cert })
    client.send(request('POST', '/echo', {}, 'x'.repeat(300_000)))
    expect((await client.answer()).status).toBe(413)
    client.socket.end()
    expect(await client.closed()).toBe('')
    expect(client.failure).toBeUndefined()
  })

  test.each([
    ['TLSv1.3', 'TLSv1.3'],
    ['TLSv1.2', 'TLSv1.2'],
    ['TLSv1.1', expect.stringMatching(/PROTOCOL_VERSION|INTERNAL_ERROR/)],
  ] as const)('%s', async (version, outcome) => {
    const frame = await serveTls()
    const options = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' }
    expect(await handshake(frame.port, options)).toEqual(outcome)
  })

  test('a client that speaks plain HTTP is cut off, and the server goes on', async () => {
    const frame = await serveTls()
    const plain = await frame.client()
    plain.send(request('GET', '/prototypes'))
    await plain.closed()
    expect(await handshake(frame.port, {})).toBe('TLSv1.3')
    expect(frame.log).toEqual([failed('ERR_SSL_HTTP_REQUEST')])
  })

  test('a client that only hangs up, as a probe does, is no news', async () => {
    const frame = await serveTls()
    const probe = await frame.client()
    probe.socket.end()
    await probe.closed()
    expect(await handshake(frame.port, {})).toBe('TLSv1.3')
    expect(frame.log).toEqual([])
  })
})

describe('client certificates', () => {
  test('one that the CA signed', async () => {
    const frame = await serveTls(authority.ca.cert)
    const { cert, key } = authority.issue('client')
    expect(await handshake(frame.port, { cert, key })).toBe('TLSv1.3')
  })

  test('none, or of another CA', async () => {
    const frame = await serveTls(authority.ca.cert)
    const { cert, key } = strangers.issue('client')
    expect(await handshake(frame.port, {})).not.toMatch(/^TLS/)
    expect(await handshake(frame.port, { cert, key })).not.toMatch(/^TLS/)
    expect(frame.done).toEqual([])
  })

  test.each([
    ['TLSv1.3', 'of another CA', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
    ['TLSv1.2', 'of another CA', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
    ['TLSv1.3', 'expired', 'CERT_HAS_EXPIRED'],
    ['TLSv1.3', 'none', 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE'],
  ] as const)('the log says why a client was cut off: %s, %s', async (version, which, reason) => {
    const frame = await serveTls(authority.ca.cert)
    const { cert, key } =
      which === 'expired' ? authority.issue('late', 0) : strangers.issue('client')
    const shown = which === 'none' ? {} : { cert, key }
    await handshake(frame.port, { ...shown, minVersion: version, maxVersion: version })
    await expect.poll(() => frame.log, EVENTUALLY).toEqual([failed(reason)])
  })

  test('a million of them are ten lines in ten seconds', async () => {
    let now = 0
    const tls = { cert: own.cert, key: own.key, ca: authority.ca.cert }
    const frame = await serve(ROUTES, { tls, now: () => now })
    for (let i = 0; i < 12; i++) await handshake(frame.port, {})
    // That of the last one has been written before this one comes.
    now = 20_000
    await handshake(frame.port, {})
    await expect.poll(() => frame.log, EVENTUALLY).toHaveLength(11)
    expect(frame.log.at(-1)?.fields).toMatchObject({ suppressed: 2 })
  })
})

describe('stop', () => {
  test('ends a connection whose handshake never comes', async () => {
    const tls = { cert: own.cert, key: own.key }
    // Nothing else ends it in time.
    const limits = { headersTimeoutMs: 3_600_000, requestTimeoutMs: 3_600_000 }
    const frame = await serve(ROUTES, { tls, limits })
    const silent = connect({ port: frame.port, host: '127.0.0.1' })
    await once(silent, 'connect')
    // Its turn comes after that of the silent one.
    expect(await handshake(frame.port, {})).toBe('TLSv1.3')
    const closed = once(silent, 'close')
    await frame.server.stop(new AbortController().signal)
    await closed
  })

  test('answers what has been asked first', async () => {
    const { slow, entered, open } = slowRoute()
    const frame = await serve([slow], { tls: { cert: own.cert, key: own.key } })
    const client = await frame.client({ ca: authority.ca.cert })
    client.send(request('GET', '/slow'))
    await entered
    const stopped = frame.server.stop(new AbortController().signal)
    open()
    expect(await client.answer()).toMatchObject({ status: 200, headers: { connection: 'close' } })
    await stopped
    expect(await client.closed()).toBe('')
  })

  test('a handshake that does not come is cut off in any case', async () => {
    const tls = { cert: own.cert, key: own.key }
    const frame = await serve(ROUTES, { tls, limits: { headersTimeoutMs: 50 } })
    const silent = connect({ port: frame.port, host: '127.0.0.1' })
    await once(silent, 'close')
  })
})

describe('the files', () => {
  test('are read', async () => {
    const { certPath: cert, keyPath: key } = own
    const ca = authority.ca.certPath
    expect(await readTls({ cert, key, ca })).toEqual({ ...pick(own), ca: authority.ca.cert })
    expect(await readTls({ cert, key })).toEqual(pick(own))
  })

  test.each([
    ['OJS_TLS_CERT cannot be read: ENOENT', () => ({ cert: '/nowhere', key: own.keyPath })],
    ['OJS_TLS_KEY cannot be read: ENOENT', () => ({ cert: own.certPath, key: '/nowhere' })],
    ['OJS_TLS_CA cannot be read', () => ({ cert: own.certPath, key: own.keyPath, ca: '/nowhere' })],
    ['cannot be used', () => ({ cert: own.certPath, key: authority.ca.keyPath })],
    ['cannot be used', () => ({ cert: own.keyPath, key: own.keyPath })],
  ])('%s', async (message, files) => {
    await expect(readTls(files())).rejects.toThrow(message)
  })

  test.each(['ec', 'pkcs8'])('a key with a passphrase is named as such: %s', async (command) => {
    const key = join(dirname(own.keyPath), `${command}.enc.key`)
    // In the older form, the type of which is in its first line, and in the newer one.
    const form = command === 'ec' ? ['ec', '-aes128', '-passout', 'pass:xyzxyz'] : PKCS8
    execFileSync('openssl', [...form, '-in', own.keyPath, '-out', key], { stdio: 'ignore' })
    await expect(readTls({ cert: own.certPath, key })).rejects.toThrow(
      'OJS_TLS_KEY cannot be used: it has a passphrase',
    )
  })

  test.each([
    ['nothing', () => ''],
    ['a key', () => authority.ca.key],
    ['a certificate that is cut off', () => authority.ca.cert.subarray(0, 200)],
    ['a second one that is cut off', () => `${authority.ca.cert}${`${own.cert}`.slice(0, 200)}`],
  ])('a CA that would let nobody in, or not everybody: %s', async (_, content) => {
    const ca = join(dirname(authority.ca.certPath), 'unusable.pem')
    writeFileSync(ca, content())
    const files = { cert: own.certPath, key: own.keyPath, ca }
    await expect(readTls(files)).rejects.toThrow(/OJS_TLS_CA cannot be used: /)
  })

  test('a CA of several certificates', async () => {
    const ca = join(dirname(authority.ca.certPath), 'several.pem')
    writeFileSync(ca, `of both\n${authority.ca.cert}\n${strangers.ca.cert}`)
    const files = { cert: own.certPath, key: own.keyPath, ca }
    expect((await readTls(files)).ca).toHaveLength(readFileSync(ca).length)
  })
})

function pick({ cert, key }: Certificate) {
  return { cert, key }
}
