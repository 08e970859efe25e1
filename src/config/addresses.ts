/** Addresses in the environment: of RabbitMQ, the ledger, the gateway itself, and what the console leads to. */
import {
  isAmqpUrl,
  notOneCluster,
  OF_GATEWAY,
  parameterMistakes,
} from '../broker/connection/urls.ts'
import { type PostgresAddress, readAddress } from '../ledger/postgres/address.ts'
import { list } from './readers.ts'
import type { Name } from './variables.ts'

export type LedgerLocation =
  | { type: 'sqlite'; path: string }
  /** May hold a password. */
  | { type: 'postgres'; address: PostgresAddress }

/** What the console leads to or asks elsewhere; null: nothing. */
export interface ConsoleLinks {
  /** With `{trace_id}` in it. */
  traceUrl: string | null
  /** Decodes encrypted args in the visitor's browser. */
  codecUrl: string | null
}

export function consoleLinks(read: (name: Name) => string, mistakes: string[]): ConsoleLinks {
  const traceUrl = read('OJS_TRACE_URL') || null
  const codecUrl = read('OJS_CODEC_URL') || null
  if (traceUrl !== null && !(isWebAddress(traceUrl) && traceUrl.includes('{trace_id}'))) {
    mistakes.push('OJS_TRACE_URL must be a URL such as https://traces.example.com/{trace_id}')
  }
  if (codecUrl !== null && !isWebAddress(codecUrl)) {
    mistakes.push('OJS_CODEC_URL must be a URL such as https://codec.example.com/decode')
  }
  return { traceUrl, codecUrl }
}

/** Without a password, since every visitor is told the address. */
function isWebAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && username === '' && password === ''
}

/** Shows no part of the URL: it may hold a password. */
export function managementUrl(text: string, mistakes: string[]): string | null {
  if (text === '') return null
  try {
    const { protocol, username, password } = new URL(text)
    decodeURIComponent(username + password)
    if (protocol === 'http:' || protocol === 'https:') return text
  } catch {
    // Said below.
  }
  mistakes.push('OJS_MANAGEMENT_URL must be a URL such as http://user:password@rabbitmq:15672')
  return null
}

export function amqpUrls(text: string, mistakes: string[]): string[] {
  const urls = list(text)
  if (urls.length === 0) mistakes.push('OJS_AMQP_URL names no broker')
  const differ = notOneCluster(urls.filter(isAmqpUrl).map((url) => new URL(url)))
  if (differ !== null) mistakes.push(`OJS_AMQP_URL ${differ}`)
  for (const [i, url] of urls.entries()) {
    const entry = `OJS_AMQP_URL, entry ${i + 1}`
    if (isAmqpUrl(url)) {
      const found = parameterMistakes(new URL(url), OF_GATEWAY)
      mistakes.push(...found.map((mistake) => `${entry}: ${mistake}`))
    } else {
      // The entry is not shown: without parsing it, its password cannot be redacted.
      mistakes.push(
        `${entry}, is not an amqp:// or amqps:// URL (percent-encode / @ , % # in the password)`,
      )
    }
  }
  return urls
}

export function ledgerLocation(text: string, mistakes: string[]): LedgerLocation {
  if (!/^postgres(ql)?:/i.test(text)) return { type: 'sqlite', path: ledgerPath(text, mistakes) }
  const found: string[] = []
  const address = /^postgres(ql)?:$/i.test(text) ? null : readAddress(text, found)
  // Nothing of it is shown: it holds a password.
  mistakes.push(...found.map((mistake) => `OJS_LEDGER ${mistake}`))
  if (address !== null) return { type: 'postgres', address }
  if (found.length === 0)
    mistakes.push('OJS_LEDGER names no server; only npm start finds or starts one by itself')
  return { type: 'sqlite', path: '' }
}

function ledgerPath(text: string, mistakes: string[]): string {
  const path = text.slice('sqlite:'.length)
  if (!text.startsWith('sqlite:') || path.trim() === '') {
    // Nor of this: it may be an address that begins otherwise than expected.
    mistakes.push('OJS_LEDGER must be sqlite:<path> or postgres://user:password@host/database')
  } else if (path === ':memory:' || path.startsWith('file:')) {
    // SQLite reads ':memory:' as "no file", and a file: URI as the path of a differently named file.
    mistakes.push("OJS_LEDGER must be sqlite:<path> of a file, not ':memory:' or a file: URI")
  } else if (path !== path.trim() || /\p{Cc}/u.test(path)) {
    // An environment file with Windows line ends adds a CR to the path. SQLite would then silently create a
    // second, empty ledger whose name looks the same.
    mistakes.push(
      `OJS_LEDGER must have no white space around its path, nor control characters: '${text}'`,
    )
  }
  return path
}

export function advertisedUrl(text: string, mistakes: string[]): string | null {
  if (text === '') return null
  if (!isWebAddress(text) || new URL(text).pathname !== '/' || /[?#]/.test(text))
    mistakes.push('OJS_ADVERTISED_URL must be a URL such as http://gateway-1.internal:8080')
  return text.replace(/\/$/, '')
}
