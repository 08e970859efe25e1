import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readTls } from '../../../src/http/access/tls.ts'
import { readJson } from '../../../src/http/message/body.ts'
import { answer } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import { Authority, type Certificate, RSA } from '../../support/gateway/certificates.ts'
import { EVENTUALLY, errorOf, type Frame, serve, slowRoute } from '../frame.ts'
import { request } from '../raw-client.ts'

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
      // Express sets the prototype of requests that do not have its own, which is slow (see `request.ts`).
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

const NO_CIPHER = expect.stringMatching(/HANDSHAKE_FAILURE|NO_CIPHERS/)

const failed = (reason: string) => ({
  level: 'warn',
  fields: { address: '127.0.0.1', reason },
  message: 'TLS handshake failed',
})

/** Resolves with the TLS version of the connection, or with the reason for its failure. */
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
    // In TLS 1.3 the client has ended its handshake before it learns that its certificate is refused.
    socket.on('secureConnect', () => socket.write(request('GET', '/prototypes')))
    socket.on('data', () => resolve(socket.getProtocol() ?? ''))
  })
}

describe('HTTPS', () => {
  test('gives the same answers as HTTP, and url() begins with https', async () => {
    const frame = await serveTls()
    expect(frame.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    const client = await frame.client({ ca: authority.ca.cert })
    client.send(request('POST', '/echo', {}, '{"a":1}'))
    expect((await client.answer()).body).toBe('{"a":1}')
    client.send(request('GET', '/nowhere'))
    expect(errorOf(await client.answer()).code).toBe('not_found')
  })

  test('accepts a POST of a page whose Origin equals the Host, because the certificate proves that name', async () => {
    const frame = await serveTls()
    const client = await frame.client({ ca: authority.ca.cert })
    const own = { Origin: 'https://jobs.example', Host: 'jobs.example' }
    client.send(request('POST', '/echo', own, '{"a":1}'))
    expect((await client.answer()).status).toBe(200)
    client.send(request('POST', '/echo', { ...own, Origin: 'https://evil.example' }, '{"a":1}'))
    expect(errorOf(await client.answer()).code).toBe('x_forbidden')
  })

  test('creates requests and responses with the prototypes of Express', async () => {
    const frame = await serveTls()
    const client = await frame.client({ ca: authority.ca.cert })
    client.send(request('GET', '/prototypes'))
    expect(JSON.parse((await client.answer()).body)).toEqual({ isOwn: true, isOwnToo: true })
  })

  test('answers 400 to what the HTTP parser refuses', async () => {
    const frame = await serveTls()
    const client = await frame.client({ ca: authority.ca.cert })
    client.send('garbage\r\n\r\n')
    expect((await client.answer()).status).toBe(400)
    expect(await client.closed()).toBe('')
  })

  test('answers 413 to a body that is too large, and the client can read it', async () => {
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
  ] as const)('with %s has the outcome %s', async (version, outcome) => {
    const frame = await serveTls()
    const options = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' }
    expect(await handshake(frame.port, options)).toEqual(outcome)
  })

  test('has no cipher of TLS 1.2 without forward secrecy or with CBC', async () => {
    const { cert, key } = authority.issue('rsa', 2, RSA)
    const [ofEc, ofRsa] = [await serveTls(), await serve(ROUTES, { tls: { cert, key } })]
    const outcomeOf = ({ port }: Frame, ciphers: string) =>
      handshake(port, { maxVersion: 'TLSv1.2', ciphers: `${ciphers}:@SECLEVEL=0` })
    for (const cipher of ['AES128-GCM-SHA256', 'AES128-SHA', 'AES256-SHA256']) {
      expect([cipher, await outcomeOf(ofRsa, cipher)]).toEqual([cipher, NO_CIPHER])
    }
    for (const cipher of ['AES128-SHA', 'AES256-SHA', 'AES128-SHA256', 'AES256-SHA384']) {
      expect([cipher, await outcomeOf(ofEc, `ECDHE-ECDSA-${cipher}`)]).toEqual([cipher, NO_CIPHER])
      expect([cipher, await outcomeOf(ofRsa, `ECDHE-RSA-${cipher}`)]).toEqual([cipher, NO_CIPHER])
    }
    for (const cipher of ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305']) {
      expect(await outcomeOf(ofEc, `ECDHE-ECDSA-${cipher}`)).toBe('TLSv1.2')
      expect(await outcomeOf(ofRsa, `ECDHE-RSA-${cipher}`)).toBe('TLSv1.2')
    }
  })

  test('disconnects and logs a client that speaks plain HTTP, and serves others', async () => {
    const frame = await serveTls()
    const plain = await frame.client()
    plain.send(request('GET', '/prototypes'))
    await plain.closed()
    expect(await handshake(frame.port, {})).toBe('TLSv1.3')
    expect(frame.log).toEqual([failed('ERR_SSL_HTTP_REQUEST')])
  })

  test('does not log a client that only connects and closes, as a probe does', async () => {
    const frame = await serveTls()
    const probe = await frame.client()
    probe.socket.end()
    await probe.closed()
    expect(await handshake(frame.port, {})).toBe('TLSv1.3')
    expect(frame.log).toEqual([])
  })
})

describe('HTTPS with client certificates', () => {
  test('accepts a certificate that the CA signed', async () => {
    const frame = await serveTls(authority.ca.cert)
    const { cert, key } = authority.issue('client')
    expect(await handshake(frame.port, { cert, key })).toBe('TLSv1.3')
  })

  test('refuses clients without a certificate, or with one of another CA', async () => {
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
  ] as const)('logs why a client was refused: %s, %s', async (version, which, reason) => {
    const frame = await serveTls(authority.ca.cert)
    const { cert, key } =
      which === 'expired' ? authority.issue('late', 0) : strangers.issue('client')
    const shown = which === 'none' ? {} : { cert, key }
    await handshake(frame.port, { ...shown, minVersion: version, maxVersion: version })
    await expect.poll(() => frame.log, EVENTUALLY).toEqual([failed(reason)])
  })

  test('logs at most ten failed handshakes in 10 s, and then the number of suppressed lines', async () => {
    let now = 0
    const tls = { cert: own.cert, key: own.key, ca: authority.ca.cert }
    const frame = await serve(ROUTES, { tls, now: () => now })
    for (let i = 0; i < 12; i++) await handshake(frame.port, {})
    // By now the server has counted the twelfth failure, so it falls into the first ten seconds.
    now = 20_000
    await handshake(frame.port, {})
    await expect.poll(() => frame.log, EVENTUALLY).toHaveLength(11)
    expect(frame.log.at(-1)?.fields).toMatchObject({ suppressed: 2 })
  })
})

describe('a connection of an HTTPS server', () => {
  test('is closed by stop() if its handshake has not begun', async () => {
    const tls = { cert: own.cert, key: own.key }
    // So that only stop() can close the connection in time.
    const limits = { headersTimeoutMs: 3_600_000, requestTimeoutMs: 3_600_000 }
    const frame = await serve(ROUTES, { tls, limits })
    const silent = connect({ port: frame.port, host: '127.0.0.1' })
    await once(silent, 'connect')
    // The server accepts connections in order, so it has the silent one when this handshake is done.
    expect(await handshake(frame.port, {})).toBe('TLSv1.3')
    const closed = once(silent, 'close')
    await frame.server.stop(new AbortController().signal)
    await closed
  })

  test('is closed by stop() after the answer to a request under way', async () => {
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

  test('is closed after headersTimeoutMs if its handshake does not begin', async () => {
    const tls = { cert: own.cert, key: own.key }
    const frame = await serve(ROUTES, { tls, limits: { headersTimeoutMs: 50 } })
    const silent = connect({ port: frame.port, host: '127.0.0.1' })
    await once(silent, 'close')
  })
})

describe('readTls', () => {
  test('reads certificate, key and CA', async () => {
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
  ])('rejects with "%s"', async (message, files) => {
    await expect(readTls(files())).rejects.toThrow(message)
  })

  test.each(['ec', 'pkcs8'])('says that a key has a passphrase: %s', async (command) => {
    const key = join(dirname(own.keyPath), `${command}.enc.key`)
    // The older form, whose first line names the type of the key, and the newer one.
    const form = command === 'ec' ? ['ec', '-aes128', '-passout', 'pass:xyzxyz'] : PKCS8
    execFileSync('openssl', [...form, '-in', own.keyPath, '-out', key], { stdio: 'ignore' })
    await expect(readTls({ cert: own.certPath, key })).rejects.toThrow(
      'OJS_TLS_KEY cannot be used: it has a passphrase',
    )
  })

  test.each([
    ['an empty file', () => ''],
    ['a key', () => authority.ca.key],
    ['a truncated certificate', () => authority.ca.cert.subarray(0, 200)],
    ['a truncated second certificate', () => `${authority.ca.cert}${`${own.cert}`.slice(0, 200)}`],
  ])('rejects an unusable CA file: %s', async (_, content) => {
    const ca = join(dirname(authority.ca.certPath), 'unusable.pem')
    writeFileSync(ca, content())
    const files = { cert: own.certPath, key: own.keyPath, ca }
    await expect(readTls(files)).rejects.toThrow(/OJS_TLS_CA cannot be used: /)
  })

  test('reads a CA file with several certificates', async () => {
    const ca = join(dirname(authority.ca.certPath), 'several.pem')
    writeFileSync(ca, `of both\n${authority.ca.cert}\n${strangers.ca.cert}`)
    const files = { cert: own.certPath, key: own.keyPath, ca }
    expect((await readTls(files)).ca).toHaveLength(readFileSync(ca).length)
  })
})

function pick({ cert, key }: Certificate) {
  return { cert, key }
}
