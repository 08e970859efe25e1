import { readFileSync } from 'node:fs'
import { get as getPlain } from 'node:http'
import { get as getTls } from 'node:https'

/**
 * The status of a gateway's health endpoint on this machine; undefined when it does not answer.
 * With `OJS_TLS_CA` it asks for a client certificate: the gateway's own is shown, which works where
 * that CA signed it.
 */
export function healthStatus(url, env = process.env) {
  const isTls = url.startsWith('https:')
  const get = isTls ? getTls : getPlain
  const asked = new Promise((resolve) => {
    const options = { agent: false, timeout: 2000, ...(isTls && tlsOptions(env)) }
    const sent = get(`${url}/ojs/v1/health`, options, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    sent.on('timeout', () => sent.destroy())
    sent.on('error', () => resolve(undefined))
  })
  // Certificate files that cannot be read or used: the gateway says so itself.
  return asked.catch(() => undefined)
}

/** The certificate names a host, not the loopback address that is asked here: nothing to check. */
function tlsOptions({ OJS_TLS_CERT: cert, OJS_TLS_KEY: key, OJS_TLS_CA: ca }) {
  const own = ca && cert && key && { cert: readFileSync(cert), key: readFileSync(key) }
  return { rejectUnauthorized: false, ...own }
}
