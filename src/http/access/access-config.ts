/** Access from the environment: API keys, origins, request limit, TLS files, and whether open is allowed. */
import { BlockList, isIP } from 'node:net'
import { type ApiKey, parseApiKeys } from './api-keys.ts'
import { parseOrigins } from './cors.ts'
import { type OidcConfig, type OidcName, parseOidc } from './oidc/oidc-config.ts'
import { parseRateLimit, type RateLimit } from './request-limiter.ts'
import { parseTlsFiles, type TlsFiles } from './tls.ts'

/** Who may call the gateway, and over which transport. */
export interface AccessConfig {
  /** Empty: everybody may do everything. */
  readonly apiKeys: readonly ApiKey[]
  readonly corsOrigins: readonly string[]
  readonly rateLimit: RateLimit | undefined
  readonly tls: TlsFiles | undefined
  /** How people sign in to the console without a key. */
  readonly oidc?: OidcConfig | undefined
}

/** Reads a variable, or its default. */
type Read = (
  name:
    | 'OJS_HOST'
    | 'OJS_API_KEYS'
    | 'OJS_CORS_ORIGINS'
    | 'OJS_RATE_LIMIT'
    | 'OJS_TLS_CERT'
    | 'OJS_TLS_KEY'
    | 'OJS_TLS_CA'
    | 'OJS_ALLOW_OPEN'
    | OidcName,
) => string

/** Reads the access variables. Adds a line per mistake to `mistakes`; no line contains a key or a hash. */
export function readAccess(read: Read, mistakes: string[]): AccessConfig {
  const access = {
    apiKeys: parseApiKeys(read('OJS_API_KEYS'), mistakes),
    corsOrigins: parseOrigins(read('OJS_CORS_ORIGINS'), mistakes),
    rateLimit: parseRateLimit(read('OJS_RATE_LIMIT'), mistakes),
    tls: parseTlsFiles(
      { cert: read('OJS_TLS_CERT'), key: read('OJS_TLS_KEY'), ca: read('OJS_TLS_CA') },
      mistakes,
    ),
    oidc: parseOidc(read, read('OJS_API_KEYS') !== '', mistakes),
  }
  const isOpen = read('OJS_API_KEYS') === ''
  const host = read('OJS_HOST')
  if (!isHost(host)) {
    mistakes.push(
      `OJS_HOST must be an address or a host name, without brackets and port, not '${host}'`,
    )
  } else if (isOpen && !mayBeOpen(read, mistakes) && !isLoopback(host)) {
    mistakes.push(
      `OJS_HOST=${host} is reachable from outside, and there are no API keys: whoever ` +
        'reaches it may do everything. Set OJS_API_KEYS (`ojs-rabbitmq key new` makes one), or ' +
        'OJS_ALLOW_OPEN=1 if something else, such as a firewall, controls access',
    )
  }
  return Object.freeze(access)
}

function mayBeOpen(read: Read, mistakes: string[]): boolean {
  const value = read('OJS_ALLOW_OPEN')
  if (!['0', '1'].includes(value)) mistakes.push('OJS_ALLOW_OPEN must be one of 0, 1')
  return value === '1'
}

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

/** A colon is allowed in an IPv6 address only: the port has its own variable. */
function isHost(text: string): boolean {
  return isIP(text) !== 0 || /^[^\s:/[\]]+$/.test(text)
}

/** Whether only this machine reaches `host`; false for other names, which may resolve to anything. */
export function isLoopback(host: string): boolean {
  const version = isIP(host)
  if (version === 0) return host.toLowerCase() === 'localhost'
  return LOOPBACK.check(host, version === 4 ? 'ipv4' : 'ipv6')
}
