import { isIP } from 'node:net'
import { echoed, OjsError } from '../errors.ts'
import type { Check } from './pipeline.ts'

/**
 * A page whose name was pointed at this machine (DNS rebinding) is of the same origin for its own
 * reads: its browser names no origin, and shows it the answer. Only `Host` tells. For a gateway that
 * is reached from this machine alone and asks for nothing else. `openPaths` are answered whatever it
 * says, and so is a request without one, which no browser sends.
 */
export function refuseForeignHosts(
  origins: readonly string[],
  openPaths: ReadonlySet<string>,
): Check {
  const listed = new Set(origins.map(nameIn))
  // Nearly every request names the same one: it is not read each time.
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
      'Whoever owns a name can point it here, and read with a web page. Use an address instead ' +
        'of the name, such as 127.0.0.1, list the origin in OJS_CORS_ORIGINS, or set OJS_API_KEYS.',
      { details: { reason: 'host', field: 'Host', received: echoed(host) } },
    )
  }
}

/** As a browser reads it (case, port, `127.1`), whose pages this is about. */
function isOwn(host: string, listed: ReadonlySet<string>): boolean {
  if (!URL.canParse(`http://${host}`)) return false
  const name = nameIn(`http://${host}`)
  return isUnowned(name) || listed.has(name)
}

/** With or without the dot of the root it is the same name. */
function nameIn(url: string): string {
  return new URL(url).hostname.replace(/\.$/, '')
}

/** DNS has no say in it: an address, a name of this machine or its network, one that nobody can buy. */
function isUnowned(name: string): boolean {
  return isAddress(name) || !name.includes('.') || /\.(localhost|internal|local|test)$/.test(name)
}

/** As URLs have it. */
export function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, '')) !== 0
}
