/** The configuration: every `OJS_*` variable with its default, read, checked and frozen. */
import { readFileSync } from 'node:fs'
import {
  isAmqpUrl,
  notOneCluster,
  OF_GATEWAY,
  parameterMistakes,
} from './broker/connection/urls.ts'
import { PREFIX, PREFIX_RULE } from './broker/names.ts'
import { DIALECTS, type Dialect } from './dialect.ts'
import { messageOf } from './errors.ts'
import { type AccessConfig, isLoopback, readAccess } from './http/access/access-config.ts'
import { checkQueueName } from './job/queue-name.ts'
import { parseDuration } from './job/values/duration.ts'
import { type PostgresAddress, readAddress } from './ledger/postgres/address.ts'
import { LOG_LEVELS, type LogLevel } from './logger.ts'

/**
 * The gateway's whole configuration, as one frozen value. Members in milliseconds end in
 * `Ms`, those in bytes in `Bytes`. The meaning and the default of each stand with its variable, in
 * `VARIABLES` below.
 */
export interface Config {
  host: string
  port: number
  /** The nodes of one cluster; they are tried in turn. */
  amqpUrls: readonly string[]
  /** RabbitMQ's management API; may contain credentials. Null: unknown. */
  managementUrl: string | null
  ledger: LedgerLocation
  /** Of SQLite only. */
  ledgerSync: 'full' | 'normal'
  /** PostgreSQL's storage is replicated by other means than its standbys, as managed services do. */
  isLedgerReplicated: boolean
  /** Where other gateways' clients reach this one; null: at the address that it listens on. */
  advertisedUrl: string | null
  queueType: 'classic' | 'quorum'
  queues: readonly string[]
  declare: 'eager' | 'lazy' | 'never'
  /** Path of the topology file; null = the one that is shipped. */
  topologyPath: string | null
  prefix: string
  visibilityTimeoutMs: number
  timeoutMs: number
  deliveryTimeoutMs: number
  publishTimeoutMs: number
  /** Which jobs a control message may concern: those of its control queue's own queue, or of any. */
  controlScope: 'queue' | 'any'
  consumerPriority: number
  maxQueues: number
  /** 0: never. */
  queueIdleMs: number
  maxRetryQueues: number
  delayMode: 'ttl' | 'plugin'
  horizonMs: number
  maxBodyBytes: number
  maxBatchBytes: number
  /** How long jobs stay readable after they ended. */
  retention: {
    completedMs: number
    cancelledMs: number
    discardedMs: number
    deadLettersMs: number
    /** Of each queue, the newest; 0: all. */
    maxDeadLetters: number
  }
  /** Which answer to give where the public test suite contradicts the seeds. */
  dialect: Dialect
  /** Whether events are also published to `ojs.exchange.events`. */
  eventsExchange: boolean
  /** Whether a job that names an unregistered schema is refused. */
  schemaStrict: boolean
  /** API keys, origins, request limit, TLS. */
  access: AccessConfig
  /** Whether the console is served at `/console`. */
  hasConsole: boolean
  consoleLinks: ConsoleLinks
  logLevel: LogLevel
  /** Which variables the environment or a file sets; the others have their defaults. */
  sources: Readonly<Partial<Record<string, 'env' | 'file'>>>
}

type LedgerLocation =
  | { type: 'sqlite'; path: string }
  /** May hold a password. */
  | { type: 'postgres'; address: PostgresAddress }

/** Far below the plugin's limit of 2³² − 1 ms (seed 002 §9.1.2). */
const MAX_HORIZON_MS = 7 * 86_400_000

/** What the console leads to or asks elsewhere; null: nothing. */
interface ConsoleLinks {
  /** With `{trace_id}` in it. */
  traceUrl: string | null
  /** Decodes encrypted args in the visitor's browser. */
  codecUrl: string | null
}

interface Variable {
  fallback: string
  doc: string
}

/** Every variable and its default on one screen. */
export const VARIABLES = {
  OJS_HOST: { fallback: '127.0.0.1', doc: 'address to bind' },
  OJS_PORT: { fallback: '8080', doc: 'port to bind; 0 = any free one' },
  OJS_AMQP_URL: { fallback: 'amqp://127.0.0.1:5672/%2Fojs', doc: 'broker URLs, comma-separated' },
  OJS_AMQP_URL_FILE: { fallback: '', doc: 'file that holds OJS_AMQP_URL' },
  OJS_MANAGEMENT_URL: {
    fallback: '',
    doc: "RabbitMQ's management API, to limit queues and to show more of RabbitMQ",
  },
  OJS_MANAGEMENT_URL_FILE: { fallback: '', doc: 'file that holds OJS_MANAGEMENT_URL' },
  OJS_LEDGER: {
    fallback: 'sqlite:./data/ojs.db',
    doc: 'location of the ledger: sqlite:<path> | postgres://user:password@host:port/database',
  },
  OJS_LEDGER_FILE: { fallback: '', doc: 'file that holds OJS_LEDGER' },
  OJS_LEDGER_SYNC: { fallback: 'full', doc: 'full | normal (power loss may lose the last second)' },
  OJS_LEDGER_REPLICATED: {
    fallback: '0',
    doc: "1: PostgreSQL's storage is replicated synchronously, which it does not know itself",
  },
  OJS_ADVERTISED_URL: {
    fallback: '',
    doc: 'PostgreSQL: where standbys send clients to; empty = the address it listens on',
  },
  OJS_QUEUE_TYPE: { fallback: 'classic', doc: 'classic | quorum' },
  OJS_QUEUES: { fallback: 'default', doc: 'queues to declare at the start, comma-separated' },
  OJS_DECLARE: { fallback: 'lazy', doc: 'when to declare queues: eager | lazy | never' },
  OJS_TOPOLOGY: { fallback: '', doc: 'topology file; empty = the shipped one' },
  OJS_PREFIX: { fallback: '', doc: 'tenant prefix of exchanges and queues' },
  OJS_VISIBILITY_TIMEOUT_MS: { fallback: '30000', doc: 'default lease of a job' },
  OJS_TIMEOUT_MS: { fallback: '30000', doc: 'default execution timeout of a job; 0 = none' },
  OJS_DELIVERY_TIMEOUT_MS: { fallback: '1800000', doc: "value of RabbitMQ's consumer_timeout" },
  OJS_PUBLISH_TIMEOUT_MS: { fallback: '10000', doc: 'longest wait for a publisher confirm' },
  OJS_CONTROL_SCOPE: {
    fallback: 'queue',
    doc: 'queue | any: whose jobs a message of a control queue may concern',
  },
  OJS_CONSUMER_PRIORITY: { fallback: '0', doc: 'below 0: native workers are served first' },
  OJS_MAX_QUEUES: {
    fallback: '1000',
    doc: 'most queues that clients can make the gateway declare',
  },
  OJS_QUEUE_IDLE: {
    fallback: 'P1D',
    doc: 'when a queue that nobody uses is forgotten and deleted; PT0S = never',
  },
  OJS_MAX_RUNGS: { fallback: '1000', doc: 'most retry delay queues, of all queues together' },
  OJS_DELAY_MODE: { fallback: 'ttl', doc: 'ttl | plugin (rabbitmq_delayed_message_exchange)' },
  OJS_HORIZON_MS: {
    fallback: '60000',
    doc: 'plugin: how long before its due time RabbitMQ gets a job',
  },
  OJS_MAX_BODY_BYTES: { fallback: '2097152', doc: 'largest request body' },
  OJS_MAX_BATCH_BYTES: { fallback: '8388608', doc: 'largest body of POST /jobs/batch' },
  OJS_RETENTION_COMPLETED: { fallback: 'P7D', doc: 'how long completed jobs stay readable' },
  OJS_RETENTION_CANCELLED: { fallback: 'P7D', doc: 'how long cancelled jobs stay readable' },
  OJS_RETENTION_DISCARDED: { fallback: 'P30D', doc: 'how long discarded jobs stay readable' },
  OJS_RETENTION_DEAD_LETTERS: { fallback: 'P180D', doc: 'how long dead letters stay readable' },
  OJS_MAX_DEAD_LETTERS: {
    fallback: '1000000',
    doc: 'most dead letters of a queue; 0 = any number',
  },
  OJS_DIALECT: { fallback: 'seed', doc: 'seed | conformance (as the public test suite expects)' },
  OJS_EVENTS_EXCHANGE: {
    fallback: '0',
    doc: '1: events are also published to the exchange ojs.exchange.events',
  },
  OJS_SCHEMA_STRICT: { fallback: '0', doc: '1: a job may only name a registered schema' },
  OJS_API_KEYS: {
    fallback: '',
    doc: 'name:role:sha256hex[:queues=a,b.*],…; see `ojs-rabbitmq key new`',
  },
  OJS_API_KEYS_FILE: { fallback: '', doc: 'file that holds OJS_API_KEYS' },
  OJS_ALLOW_OPEN: {
    fallback: '0',
    doc: '1: OJS_HOST may be reachable from outside without API keys',
  },
  OJS_TLS_CERT: { fallback: '', doc: 'PEM file of the certificate; with OJS_TLS_KEY: HTTPS' },
  OJS_TLS_KEY: { fallback: '', doc: 'PEM file of the private key of OJS_TLS_CERT' },
  OJS_TLS_CA: { fallback: '', doc: 'PEM file of a CA; clients need a certificate that it signed' },
  OJS_CORS_ORIGINS: { fallback: '', doc: 'origins of web pages that may call the gateway' },
  OJS_RATE_LIMIT: { fallback: '', doc: 'requests per API key or address, e.g. 1000/60s' },
  OJS_CONSOLE: {
    fallback: 'auto',
    doc: '0 | 1: the console at /console; auto = if OJS_HOST is loopback',
  },
  OJS_TRACE_URL: {
    fallback: '',
    doc: 'where the console links traces to: https://traces.example.com/{trace_id}',
  },
  OJS_CODEC_URL: { fallback: '', doc: 'what the console asks to decode encrypted args' },
  OJS_OIDC_ISSUER: { fallback: '', doc: 'OpenID Connect provider to sign in to the console with' },
  OJS_OIDC_CLIENT_ID: { fallback: '', doc: 'what the provider calls the gateway' },
  OJS_OIDC_CLIENT_SECRET: {
    fallback: '',
    doc: 'the secret of this client; empty = a public client',
  },
  OJS_OIDC_CLIENT_SECRET_FILE: { fallback: '', doc: 'file that holds OJS_OIDC_CLIENT_SECRET' },
  OJS_OIDC_REDIRECT_URL: {
    fallback: '',
    doc: 'the address of the console as the provider knows it; empty = as the browser does',
  },
  OJS_OIDC_SCOPE: { fallback: 'openid profile email', doc: 'what the provider is asked for' },
  OJS_OIDC_CLAIM: { fallback: 'groups', doc: 'the claim that OJS_OIDC_ROLES is about' },
  OJS_OIDC_NAME_CLAIM: {
    fallback: 'preferred_username',
    doc: 'the claim that people are called by',
  },
  OJS_OIDC_ROLES: {
    fallback: '',
    doc: 'value:role[:queues=a,b.*],…: who has which role; * = everybody who signs in',
  },
  OJS_LOG_LEVEL: { fallback: 'info', doc: LOG_LEVELS.join(' | ') },
} as const satisfies Record<string, Variable>

type Name = keyof typeof VARIABLES
type Environment = Readonly<Record<string, string | undefined>>

/** Secrets, which Docker and Kubernetes provide as files; `<NAME>_FILE` holds the path of one. */
const MAY_BE_IN_FILES = [
  'OJS_AMQP_URL',
  'OJS_API_KEYS',
  'OJS_LEDGER',
  'OJS_MANAGEMENT_URL',
  'OJS_OIDC_CLIENT_SECRET',
] as const

/** Read by the command `recover` only: the gateway's URL, and the API key that the command sends. */
const OTHER_NAMES = new Set([
  ...['OJS_URL', 'OJS_API_KEY', 'OJS_CLIENT_CA', 'OJS_CLIENT_CERT', 'OJS_CLIENT_KEY'],
])

/** The environment cannot be used. The message is for the operator and has one line per mistake. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/**
 * Reads the environment and the secret files that it names. Throws `ConfigError` with one line per mistake.
 * An unknown `OJS_*` name is a mistake if it resembles one of ours, else a warning.
 */
export function readConfig(given: Environment): { config: Config; warnings: string[] } {
  const mistakes: string[] = []
  const warnings = checkNames(given, mistakes)
  const env = { ...given, ...secretsInFiles(given, mistakes) }
  const { read, int, oneOf, duration, retention } = readers(env, mistakes)
  const config: Config = {
    host: read('OJS_HOST'),
    port: int('OJS_PORT', 0, 65_535),
    amqpUrls: amqpUrls(env['OJS_AMQP_URL'] || env['AMQP_URL'] || read('OJS_AMQP_URL'), mistakes),
    managementUrl: managementUrl(read('OJS_MANAGEMENT_URL'), mistakes),
    ledger: ledgerLocation(read('OJS_LEDGER'), mistakes),
    ledgerSync: oneOf('OJS_LEDGER_SYNC', ['full', 'normal']),
    isLedgerReplicated: oneOf('OJS_LEDGER_REPLICATED', ['0', '1']) === '1',
    advertisedUrl: advertisedUrl(read('OJS_ADVERTISED_URL'), mistakes),
    queueType: oneOf('OJS_QUEUE_TYPE', ['classic', 'quorum']),
    queues: queueNames(read('OJS_QUEUES'), read('OJS_PREFIX'), mistakes),
    declare: oneOf('OJS_DECLARE', ['eager', 'lazy', 'never']),
    topologyPath: read('OJS_TOPOLOGY') || null,
    prefix: prefix(read('OJS_PREFIX'), mistakes),
    visibilityTimeoutMs: int('OJS_VISIBILITY_TIMEOUT_MS', 1),
    timeoutMs: int('OJS_TIMEOUT_MS', 0),
    deliveryTimeoutMs: int('OJS_DELIVERY_TIMEOUT_MS', 60_000),
    publishTimeoutMs: int('OJS_PUBLISH_TIMEOUT_MS', 100),
    controlScope: oneOf('OJS_CONTROL_SCOPE', ['queue', 'any']),
    consumerPriority: int('OJS_CONSUMER_PRIORITY', -(2 ** 31)),
    maxQueues: int('OJS_MAX_QUEUES', 1),
    queueIdleMs: duration('OJS_QUEUE_IDLE'),
    maxRetryQueues: int('OJS_MAX_RUNGS', 0),
    delayMode: oneOf('OJS_DELAY_MODE', ['ttl', 'plugin']),
    horizonMs: int('OJS_HORIZON_MS', 0, MAX_HORIZON_MS),
    maxBodyBytes: int('OJS_MAX_BODY_BYTES', 1024, 2 ** 30),
    maxBatchBytes: int('OJS_MAX_BATCH_BYTES', 1024, 2 ** 30),
    retention: {
      completedMs: retention('OJS_RETENTION_COMPLETED'),
      cancelledMs: retention('OJS_RETENTION_CANCELLED'),
      discardedMs: retention('OJS_RETENTION_DISCARDED'),
      deadLettersMs: retention('OJS_RETENTION_DEAD_LETTERS'),
      maxDeadLetters: int('OJS_MAX_DEAD_LETTERS', 0),
    },
    dialect: oneOf('OJS_DIALECT', DIALECTS),
    eventsExchange: oneOf('OJS_EVENTS_EXCHANGE', ['0', '1']) === '1',
    schemaStrict: oneOf('OJS_SCHEMA_STRICT', ['0', '1']) === '1',
    access: readAccess(read, mistakes),
    hasConsole: hasConsole(oneOf('OJS_CONSOLE', ['auto', '0', '1']), read('OJS_HOST')),
    consoleLinks: consoleLinks(read, mistakes),
    logLevel: oneOf('OJS_LOG_LEVEL', LOG_LEVELS),
    sources: sourcesIn(given),
  }
  if (mistakes.length > 0) throw new ConfigError(mistakes.join('\n'))
  return { config: Object.freeze(config), warnings }
}

function hasConsole(value: 'auto' | '0' | '1', host: string): boolean {
  return value === 'auto' ? isLoopback(host) : value === '1'
}

function sourcesIn(given: Environment): Config['sources'] {
  const names = Object.keys(VARIABLES).filter((name) => given[name])
  const files = MAY_BE_IN_FILES.filter((name) => given[`${name}_FILE`])
  return Object.fromEntries([
    ...names.map((name) => [name, 'env']),
    ...files.map((name) => [name, 'file']),
  ])
}

/** Functions that read a variable by name and type, and note an unusable value in `mistakes`. */
function readers(env: Environment, mistakes: string[]) {
  const read = (name: Name) => env[name] || VARIABLES[name].fallback
  const int = (name: Name, min: number, max = 2 ** 31 - 1) => {
    // Stricter than `Number`, which reads a blank as 0 and accepts '1e3'.
    const value = /^-?\d+$/.test(read(name)) ? Number(read(name)) : Number.NaN
    if (value >= min && value <= max) return value
    // In Kubernetes, a Service named `ojs` puts `OJS_PORT=tcp://…` into the environment of every pod.
    const hint = /^tcp:\/\//.test(read(name))
      ? ' (in Kubernetes, set enableServiceLinks: false)'
      : ''
    mistakes.push(`${name} must be an integer from ${min} to ${max}, not '${read(name)}'${hint}`)
    return min
  }
  const oneOf = <T extends string>(name: Name, values: readonly T[]) => {
    const value = values.find((candidate) => candidate === read(name))
    if (value === undefined) {
      mistakes.push(`${name} must be one of ${values.join(', ')}, not '${read(name)}'`)
    }
    return value ?? (VARIABLES[name].fallback as T)
  }
  const duration = (name: Name) => {
    try {
      return parseDuration(read(name), name)
    } catch {
      mistakes.push(`${name} must be an ISO 8601 duration such as P7D, not '${read(name)}'`)
      return Number.NaN
    }
  }
  const retention = (name: Name) => {
    const ms = duration(name)
    // For other settings 0 means "no limit"; here it would delete every job as soon as it ends.
    if (ms === 0) mistakes.push(`${name} must be longer than 0: with 0, no job would be kept`)
    return ms
  }
  return { read, int, oneOf, duration, retention }
}

/** Returns the secrets that are in files, under the names of the variables that would hold them directly. */
function secretsInFiles(env: Environment, mistakes: string[]): Environment {
  const secrets: Record<string, string> = {}
  for (const name of MAY_BE_IN_FILES) {
    const path = env[`${name}_FILE`]
    if (!path) continue
    if (env[name]) mistakes.push(`${name} and ${name}_FILE are both set; set only one of them`)
    else secrets[name] = secretIn(path, `${name}_FILE`, mistakes)
  }
  return secrets
}

function secretIn(path: string, name: string, mistakes: string[]): string {
  try {
    const text = readFileSync(path, 'utf8').trim()
    // An empty file is not the same as an unset variable: the gateway would run without API keys, open to
    // all, or would connect to the default broker.
    if (text === '') mistakes.push(`${name}: '${path}' is empty`)
    return text
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : error
    mistakes.push(`${name}: '${path}' cannot be read (${code})`)
    return ''
  }
}

function checkNames(env: Environment, mistakes: string[]): string[] {
  const warnings: string[] = []
  // OJS_API_KEY holds one plain key, which has no colon; with a colon, OJS_API_KEYS was meant. Without this
  // check the gateway would start without any keys, open to all.
  if (env['OJS_API_KEY']?.includes(':')) {
    mistakes.push('OJS_API_KEY is the key of a client; did you mean OJS_API_KEYS?')
  }
  for (const name of Object.keys(env)) {
    if (!name.startsWith('OJS_') || name in VARIABLES || OTHER_NAMES.has(name)) continue
    const meant = namesMeantBy(name)
    if (meant.length === 0) warnings.push(`${name} is not a known variable; it is ignored`)
    else mistakes.push(`${name} is not known; did you mean ${meant.join(' or ')}?`)
  }
  return warnings
}

/** What Kubernetes sets in every pod for each Service, e.g. for one called `ojs` or `ojs-ledger`. */
const OF_A_SERVICE = /_(SERVICE_(HOST|PORT)|PORT(_\d+_(TCP|UDP|SCTP))?)(_[A-Z0-9_]+)?$/

/**
 * Returns the variables that an unknown `name` may stand for: misspelt, only the beginning of a name, or with
 * a suffix such as `_FILE`. Empty for the names that Kubernetes sets.
 */
function namesMeantBy(name: string): string[] {
  const known = Object.keys(VARIABLES)
  const near = known.find((candidate) => editDistance(candidate, name) <= 2)
  if (near !== undefined) return [near]
  if (OF_A_SERVICE.test(name)) return []
  const longer = known.filter((candidate) => candidate.startsWith(`${name}_`))
  return longer.length > 0 ? longer : known.filter((candidate) => name.startsWith(`${candidate}_`))
}

function list(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
}

function queueNames(text: string, prefix: string, mistakes: string[]): string[] {
  const names = list(text)
  if (names.length === 0) mistakes.push('OJS_QUEUES names no queue')
  for (const name of names) {
    try {
      checkQueueName(name, prefix, 'OJS_QUEUES')
    } catch (error) {
      mistakes.push(messageOf(error))
    }
  }
  return names
}

function consoleLinks(read: (name: Name) => string, mistakes: string[]): ConsoleLinks {
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
function managementUrl(text: string, mistakes: string[]): string | null {
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

function amqpUrls(text: string, mistakes: string[]): string[] {
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

function ledgerLocation(text: string, mistakes: string[]): LedgerLocation {
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

function advertisedUrl(text: string, mistakes: string[]): string | null {
  if (text === '') return null
  if (!isWebAddress(text) || new URL(text).pathname !== '/' || /[?#]/.test(text))
    mistakes.push('OJS_ADVERTISED_URL must be a URL such as http://gateway-1.internal:8080')
  return text.replace(/\/$/, '')
}

function prefix(text: string, mistakes: string[]): string {
  if (text !== '' && !PREFIX.test(text)) mistakes.push(`OJS_PREFIX ${PREFIX_RULE}`)
  return text
}

/** The Levenshtein distance; cheap enough, since names are short and few. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
