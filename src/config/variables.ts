/** Every `OJS_*` variable with its default, on one screen. */
import { LOG_LEVELS } from '../logger.ts'

interface Variable {
  fallback: string
  doc: string
}

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

export type Name = keyof typeof VARIABLES

/** Secrets, which Docker and Kubernetes provide as files; `<NAME>_FILE` holds the path of one. */
export const MAY_BE_IN_FILES = [
  'OJS_AMQP_URL',
  'OJS_API_KEYS',
  'OJS_LEDGER',
  'OJS_MANAGEMENT_URL',
  'OJS_OIDC_CLIENT_SECRET',
] as const
