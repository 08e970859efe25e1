/** DNS rebinding: on loopback without keys and TLS, a `Host` that somebody could own is refused. */
import { isIP } from 'node:net'
import { echoed, OjsError } from '../../errors.ts'
import type { Check } from '../message/middleware.ts'

/**
 * Refuses requests whose `Host` is a name that somebody could own. With DNS rebinding, the owner of a web
 * page points its name at this machine. The browser then treats the page's reads as same-origin: it sends no
 * `Origin` and shows the page the answer. Only `Host` gives this away. Used where the gateway can be reached
 * from this machine alone and has neither keys nor TLS. `openPaths` are answered whatever `Host` is, and so
 * is a request without `Host`, which no browser sends.
 */
export function refuseForeignHosts(
  origins: readonly string[],
  openPaths: ReadonlySet<string>,
): Check {
  const listed = new Set(origins.map(nameIn))
  // Nearly all requests have the same `Host`; this saves parsing it each time.
  let lastOwn = ''
  return (request) => {
    const { host = '' } = request.headers
    if (host === '' || host === lastOwn) return
    if (isOwn(host, listed)) {
      lastOwn = host
      return
    }
    request.isOfForeignHost = true
    if (openPaths.has(request.path)) return
    throw new OjsError(
      'x_forbidden',
      'The Host header is neither an address nor a local name nor an allowed one. Use an ' +
        'address such as 127.0.0.1, allow the name by its origin in OJS_CORS_ORIGINS, or set ' +
        'OJS_API_KEYS.',
      { details: { reason: 'host', field: 'Host', received: echoed(host) } },
    )
  }
}

/** Parses the host as a browser does (case, port, `127.1`), since this is about the pages of browsers. */
function isOwn(host: string, listed: ReadonlySet<string>): boolean {
  if (!URL.canParse(`http://${host}`)) return false
  const name = nameIn(`http://${host}`)
  return isUnowned(name) || listed.has(name)
}

/** The host name without the root's final dot, which makes no difference. */
function nameIn(url: string): string {
  return new URL(url).hostname.replace(/\.$/, '')
}

/** Whether no stranger controls the name: an address, a local name, or a domain that nobody can register. */
function isUnowned(name: string): boolean {
  return isAddress(name) || !name.includes('.') || /\.(localhost|internal|local|test)$/.test(name)
}

/** Whether a URL's host is an IP address; IPv6 in brackets. */
export function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, '')) !== 0
}
