import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { tlsFetch } from '../../src/cli/operate/tls-fetch.ts'
import { readTls } from '../../src/http/access/tls.ts'
import { Authority, type Certificate } from '../support/gateway/certificates.ts'

let authority: Authority
let strangers: Authority
let client: Certificate
let server: Server
let url = ''
let finish: () => void = () => {}

beforeAll(async () => {
  authority = new Authority()
  strangers = new Authority()
  client = authority.issue('operator')
  const own = authority.issue('gateway')
  const material = await readTls({
    cert: own.certPath,
    key: own.keyPath,
    ca: authority.ca.certPath,
  })
  server = createServer({ ...material, requestCert: true }, (request, response) => {
    response.writeHead(200, {
      'x-peer': (request.socket as TLSSocket).getPeerCertificate().subject.CN,
    })
    response.write('first;')
    finish = () => response.end('second')
    if (request.url === '/whole') finish()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.close()
  server.closeAllConnections()
  authority.remove()
  strangers.remove()
})

const files = () => ({ ca: authority.ca.certPath, cert: client.certPath, certKey: client.keyPath })

it('trusts the CA, presents the certificate, and hands the body on as it comes', async () => {
  const send = tlsFetch(files(), {})
  const answer = await send?.(url)
  expect(answer?.headers.get('x-peer')).toBe('operator')
  const reader = answer?.body?.getReader()
  const part = await reader?.read()
  expect(new TextDecoder().decode(part?.value)).toBe('first;')
  finish()
  expect(new TextDecoder().decode((await reader?.read())?.value)).toBe('second')
})

it('takes the files of the environment; options win; empty counts as unset', async () => {
  const env = {
    ...{ OJS_CLIENT_CA: authority.ca.certPath, OJS_CLIENT_CERT: client.certPath },
    OJS_CLIENT_KEY: client.keyPath,
  }
  expect((await tlsFetch({}, env)?.(`${url}/whole`))?.status).toBe(200)
  await expect(tlsFetch({ ca: strangers.ca.certPath }, env)?.(url)).rejects.toThrow(/certificate/)
  expect(tlsFetch({}, { OJS_CLIENT_CA: '' })).toBeUndefined()
})

it('presents the own certificate of a gateway that wants client certificates', async () => {
  const env = {
    ...{ OJS_CLIENT_CA: authority.ca.certPath, OJS_TLS_CA: authority.ca.certPath },
    ...{ OJS_TLS_CERT: client.certPath, OJS_TLS_KEY: client.keyPath },
  }
  const answer = await tlsFetch({}, env)?.(`${url}/whole`)
  expect(answer?.headers.get('x-peer')).toBe('operator')
})

it('refuses half a certificate, files that cannot be read, and those that are none', () => {
  expect(() => tlsFetch({ cert: client.certPath }, {})).toThrow(/--cert-key/)
  expect(() => tlsFetch({ ca: '/no/such/file' }, {})).toThrow(/cannot be read/)
  expect(() => tlsFetch({ cert: client.keyPath, certKey: client.keyPath }, {})).toThrow(
    /cannot be used/,
  )
})
