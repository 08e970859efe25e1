import { readFileSync } from 'node:fs'
import { get as getPlain } from 'node:http'
import { get as getTls } from 'node:https'

/**
 * Returns the HTTP status of the health endpoint of a gateway on this machine; undefined when it does not
 * answer. With `OJS_TLS_CA` the gateway requires a client certificate. This presents the gateway's own, which
 * works if that CA has signed it.
 * @param {string} url
 * @param {Readonly<Record<string, string | undefined>>} env
 * @returns {Promise<number | undefined>}
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
  // The certificate files cannot be read or used; the gateway reports that itself.
  return asked.catch(() => undefined)
}

/**
 * The server's certificate is not checked: it names a host, while this connects to the loopback address.
 * @param {Readonly<Record<string, string | undefined>>} env
 */
function tlsOptions({ OJS_TLS_CERT: cert, OJS_TLS_KEY: key, OJS_TLS_CA: ca }) {
  const own = ca && cert && key && { cert: readFileSync(cert), key: readFileSync(key) }
  return { rejectUnauthorized: false, ...own }
}
