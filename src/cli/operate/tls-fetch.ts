/** Requests to a server with a private CA, or one that wants a client certificate; `fetch` can do neither. */
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { Readable } from 'node:stream'
import { createSecureContext, rootCertificates } from 'node:tls'
import { messageOf } from '../../errors.ts'
import { Mistake } from './exit-codes.ts'

/** Paths of PEM files. */
export interface TlsOptions {
  /** The CA that has signed the server's certificate, beside those that Node.js knows. */
  ca?: string
  cert?: string
  certKey?: string
}

/**
 * A `fetch` with these certificates, or those of the environment; undefined: there are none. On the machine of a
 * gateway that wants client certificates its own one is presented, if nothing else is set. Throws `Mistake`.
 */
export function tlsFetch(options: TlsOptions, env: NodeJS.ProcessEnv): typeof fetch | undefined {
  const ca = options.ca ?? env['OJS_CLIENT_CA']
  const isOwn = Boolean(env['OJS_TLS_CA'] && env['OJS_TLS_CERT'] && env['OJS_TLS_KEY'])
  const cert = options.cert ?? (env['OJS_CLIENT_CERT'] || (isOwn ? env['OJS_TLS_CERT'] : undefined))
  const key = options.certKey ?? (env['OJS_CLIENT_KEY'] || (isOwn ? env['OJS_TLS_KEY'] : undefined))
  if (!ca && !cert && !key) return undefined
  if (!cert !== !key) throw new Mistake('A client certificate needs both --cert and --cert-key.')
  const material = {
    ...(ca && { ca: [...rootCertificates, read(ca)] }),
    ...(cert && key && { cert: read(cert), key: read(key) }),
  }
  try {
    createSecureContext(material)
  } catch (error) {
    throw new Mistake(`The certificates cannot be used: ${messageOf(error)}`)
  }
  const agent = new Agent({ keepAlive: true, ...material })
  return (target, init) => send(agent, new URL(String(target)), init)
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Mistake(`'${path}' cannot be read: ${messageOf(error)}`)
  }
}

function send(agent: Agent, url: URL, init: RequestInit = {}): Promise<Response> {
  if (url.protocol !== 'https:') return fetch(url, init)
  const { method = 'GET', headers, body, signal } = init
  return new Promise((resolve, reject) => {
    const options = { agent, method, headers: headers as Record<string, string> }
    const sent = request(url, { ...options, ...(signal && { signal }) }, (response) =>
      resolve(answerOf(response)),
    )
    sent.on('error', reject)
    sent.end(body)
  })
}

/** With its body as a stream, because events come as long as somebody listens. */
function answerOf(response: IncomingMessage): Response {
  const { statusCode: status = 0, headers } = response
  const isEmpty = status === 204 || status === 304
  if (isEmpty) response.resume()
  const body = isEmpty ? null : (Readable.toWeb(response) as ReadableStream)
  const pairs = Object.entries(headers).map(([name, value]): [string, string] => [name, `${value}`])
  return new Response(body, { status, headers: pairs })
}
