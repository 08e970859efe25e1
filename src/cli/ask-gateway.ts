/** Sends an operator's request to a running gateway, with its key and certificate. */
import { type IncomingMessage, request } from 'node:http'
import { request as requestTls } from 'node:https'
import { text } from 'node:stream/consumers'
import { readTls } from '../http/access/tls.ts'
import { describeError, redactUrls } from '../logger.ts'
import { pathAbove } from '../sdk/transport/server-url.ts'
import { print, printableJson } from './command.ts'

/** `recover` is answered only when the row of every job of the queue is rewritten, perhaps a million. */
const SILENCE_MS = 300_000

/**
 * Sends an operator's request to the running gateway at `url` or `OJS_URL`, and prints its answer. Resolves to
 * the exit code. `OJS_API_KEY`: an operator's key, if the gateway requires keys.
 */
export async function askGateway(
  path: string,
  content: object,
  { url, env }: { url: string | undefined; env: NodeJS.ProcessEnv },
): Promise<number> {
  const scheme = env['OJS_TLS_CERT'] ? 'https' : 'http'
  // Empty counts as unset, as in `config/readers.ts`.
  const base = url ?? (env['OJS_URL'] || `${scheme}://127.0.0.1:${env['OJS_PORT'] || 8080}`)
  const key = env['OJS_API_KEY']
  // Node.js would refuse such a header, and the error would read as if no gateway had answered.
  if (key && !/^[\x21-\x7e]+$/.test(key)) {
    console.error('OJS_API_KEY has a blank, a line end or another character that no key contains.')
    return 2
  }
  const type = { 'content-type': 'application/json' }
  const headers = key ? { ...type, authorization: `Bearer ${key}` } : type
  const shown = redactUrls(base)
  if (!URL.canParse(base)) {
    console.error(`'${shown}' is not a URL such as http://127.0.0.1:8080. See --url and OJS_URL.`)
    return 2
  }
  const certificate = await ownCertificate(env)
  const body = JSON.stringify(content)
  const asked = post(below(base, path), { headers, ...certificate }, body)
  const answered = await asked.catch(describeError)
  if (typeof answered === 'string') {
    const names = /^https:/i.test(base)
      ? '--url, OJS_URL and NODE_EXTRA_CA_CERTS'
      : '--url and OJS_URL'
    console.error(`No gateway answers at ${shown} (${answered}). Is it running? See ${names}.`)
    return 1
  }
  const answer = printableJson(answered.body)
  if (answered.isDone) print(answer)
  else console.error(answer)
  return answered.isDone ? 0 : 1
}

/** The URL of `path` below `base`, which may itself have a path (behind a proxy), as the SDK's `url` may. */
function below(base: string, path: string): URL {
  const url = new URL(base)
  url.pathname = pathAbove(url) + path
  url.search = ''
  url.hash = ''
  return url
}

/**
 * With `OJS_TLS_CA` the gateway requires a client certificate. This presents the gateway's own, which works
 * if that CA has signed it.
 */
async function ownCertificate(env: NodeJS.ProcessEnv): Promise<object> {
  const { OJS_TLS_CERT: cert, OJS_TLS_KEY: key, OJS_TLS_CA: ca } = env
  if (!cert || !key || !ca) return {}
  const own = await readTls({ cert, key })
  return { cert: own.cert, key: own.key }
}

/** Not with `fetch`, which cannot present a client certificate. */
async function post(
  url: URL,
  options: object,
  content: string,
): Promise<{ isDone: boolean; body: string }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const send = url.protocol === 'https:' ? requestTls : request
    const sent = send(url, { ...options, method: 'POST', timeout: SILENCE_MS }, resolve)
    sent.on('timeout', () => sent.destroy(new Error('no answer in time')))
    sent.on('error', reject)
    sent.end(content)
  })
  const { statusCode = 0 } = response
  return { isDone: statusCode >= 200 && statusCode < 300, body: await text(response) }
}
