/** Where a PostgreSQL ledger is: reads a `postgres://` URL, and says its mistakes without showing any of it. */
import { isIP } from 'node:net'

export interface PostgresHost {
  /** A name, an address, or the folder of a Unix socket. */
  host: string
  port: number
}

/** As in libpq, without `allow` and `prefer`: whether a connection is encrypted must not depend on the server. */
type SslMode = (typeof SSL_MODES)[number]

export interface PostgresAddress {
  /** The members of one cluster, of which one is writable. At least one. */
  hosts: readonly PostgresHost[]
  /** Null: what `pg` takes from its environment (`PGUSER`, `PGPASSWORD`, `.pgpass`). */
  user: string | null
  password: string | null
  database: string
  sslMode: SslMode
  /** PEM file of the authorities that may have signed the server's certificate; null: those of Node. */
  rootCertificate: string | null
}

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const
const PARAMETERS = ['host', 'sslmode', 'sslrootcert', 'target_session_attrs']
const STANDARD_PORT = 5432
const EXAMPLE = 'postgres://user:password@host-a:5432,host-b:5432/database?sslmode=verify-full'

/** Not with `URL`, which takes no list of hosts. */
const PARTS =
  /^postgres(?:ql)?:\/\/(?:(?<credentials>[^@/?#]*)@)?(?<hosts>[^@/?#]*)(?:\/(?<database>[^/?#]*))?(?:\?(?<query>[^#]*))?$/i

/**
 * Returns the address, or null after it has added to `mistakes`. No mistake shows a part of the URL: an
 * unescaped / or @ in a password makes any part of it a piece of the password.
 */
export function readAddress(text: string, mistakes: string[]): PostgresAddress | null {
  const found: string[] = []
  const address = addressIn(text, found)
  mistakes.push(...found)
  return found.length === 0 ? address : null
}

function addressIn(text: string, mistakes: string[]): PostgresAddress | null {
  const parts = PARTS.exec(text)?.groups
  if (!parts || !isDecodable(text)) {
    mistakes.push(`must be a URL such as ${EXAMPLE} (percent-encode / @ , % # in the password)`)
    return null
  }
  const query = new URLSearchParams(parts['query'])
  const [user, ...password] = (parts['credentials'] ?? '').split(':').map(decodeURIComponent)
  const hosts = hostsIn(parts['hosts'] ?? '', query.get('host'), mistakes)
  checkParameters(query, mistakes)
  return {
    hosts,
    user: user || null,
    password: password.join(':') || null,
    database: databaseIn(parts['database'], mistakes),
    sslMode: sslModeIn(query.get('sslmode'), hosts, mistakes),
    rootCertificate: query.get('sslrootcert'),
  }
}

function isDecodable(text: string): boolean {
  try {
    // PostgreSQL takes no NUL in any of its names, and would end the text there.
    return !decodeURIComponent(text).includes('\0')
  } catch {
    return false
  }
}

function databaseIn(text: string | undefined, mistakes: string[]): string {
  if (!text) mistakes.push(`names no database: ${EXAMPLE}`)
  return decodeURIComponent(text ?? '')
}

function hostsIn(authority: string, folder: string | null, mistakes: string[]): PostgresHost[] {
  if (authority !== '' && folder !== null)
    mistakes.push('names hosts both before its path and in host=')
  const texts = folder === null ? authority.split(',') : [encodeURIComponent(folder)]
  return texts.map((text, i) => {
    const [, name = '', port] = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::(\d+))?$/i.exec(text) ?? []
    const number = port === undefined ? STANDARD_PORT : Number(port)
    if (name === '') mistakes.push(`host ${i + 1} is not a host, or host:port`)
    if (number < 1 || number > 65_535) mistakes.push(`host ${i + 1} has no port from 1 to 65535`)
    return { host: decodeURIComponent(name.replace(/^\[(.*)\]$/, '$1')), port: number }
  })
}

function checkParameters(query: URLSearchParams, mistakes: string[]): void {
  const names = [...query.keys()]
  // The name itself is not shown: it may be the rest of a password with a question mark.
  if (names.some((name) => !PARAMETERS.includes(name)))
    mistakes.push(`has an unknown parameter; the known ones are ${PARAMETERS.join(', ')}`)
  if (new Set(names).size < names.length) mistakes.push('has a parameter twice')
  const attributes = query.get('target_session_attrs')
  // Always so; libpq's URLs for several hosts say it, and are to work as they are.
  if (attributes !== null && attributes !== 'read-write')
    mistakes.push('target_session_attrs must be read-write: the ledger needs the writable host')
}

function sslModeIn(given: string | null, hosts: PostgresHost[], mistakes: string[]): SslMode {
  const mode = SSL_MODES.find((each) => each === given)
  if (mode !== undefined) return mode
  if (given !== null || !hosts.every(isThisMachine))
    mistakes.push(
      `needs sslmode, one of ${SSL_MODES.join(', ')} (verify-full, unless the network is trusted)`,
    )
  return 'disable'
}

/** Whether what is sent there never leaves this machine. */
function isThisMachine({ host }: PostgresHost): boolean {
  return isSocketFolder(host) || host === 'localhost' || host === '::1' || isLoopbackV4(host)
}

function isLoopbackV4(host: string): boolean {
  return isIP(host) === 4 && host.startsWith('127.')
}

export function isSocketFolder(host: string): boolean {
  return host.startsWith('/')
}

/** For logs and health: hosts and database, neither user nor password. */
export function shownAddress({ hosts, database }: PostgresAddress): string {
  return `postgres://${hosts.map(shownHost).join(',')}/${encodeURIComponent(database)}`
}

/** As it stands in a URL. */
export function shownHost({ host, port }: PostgresHost): string {
  const name = isIP(host) === 6 ? `[${host}]` : encodeURIComponent(host)
  return `${name}:${port}`
}
