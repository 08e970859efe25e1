/** Why a connection did not open, with a hint for the operator. */
import { describeError } from '../../logger.ts'
import { virtualHostOf } from './urls.ts'

/** The error's text, with a hint where OpenSSL, Node.js or amqplib do not say what helps. */
export function whyNotOpen(error: unknown, url: URL): string {
  // OpenSSL's texts end with a line break.
  const text = describeError(error).trim()
  const hint = hintFor(error, text, url)
  if (hint !== null) return `${text}; ${hint}`
  // amqplib drops the text of a broker that refuses after the login: that is about the virtual host.
  if (!text.startsWith('Expected ConnectionOpenOk; got <ConnectionClose')) return text
  return `RabbitMQ refused virtual host '${virtualHostOf(url)}': it is missing, closed to this user, or at its limit`
}

/** Hints by Node.js's error code, which names OpenSSL's reason. The first: the signer is unknown. */
const TLS_HINTS: readonly [code: RegExp, hint: string][] = [
  [
    /^(SELF_SIGNED_CERT|DEPTH_ZERO_SELF|UNABLE_TO_(VERIFY_LEAF|GET_ISSUER))/,
    'for a CA of your own, set NODE_EXTRA_CA_CERTS to its PEM file',
  ],
  [
    /ALERT_CERTIFICATE_REQUIRED$/,
    'RabbitMQ requires a client certificate, but this client presents none: set ssl_options.fail_if_no_peer_cert = false in RabbitMQ',
  ],
  // A plain port's answer to a TLS handshake is read as a TLS record.
  [
    /^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/,
    'if this is a port without TLS, its URL must begin with amqp://',
  ],
]

const PLAIN_PORTS = new Set(['', '5672'])

function hintFor(error: unknown, text: string, { protocol, port }: URL): string | null {
  const code = error instanceof Error && 'code' in error ? `${error.code}` : ''
  const [, hint] = TLS_HINTS.find(([pattern]) => pattern.test(code)) ?? []
  if (hint !== undefined) return hint
  // A TLS port cuts off what is not TLS. At the plain port, it is a RabbitMQ that is starting.
  const isCut = /^Socket closed abruptly/.test(text)
  if (!isCut || protocol !== 'amqp:' || PLAIN_PORTS.has(port)) return null
  return 'if this is a port for TLS, its URL must begin with amqps://'
}

/** True when no TCP connection came about (as opposed to a broker that answered and refused). */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? error.code : undefined
  return (typeof code === 'string' && code !== 'ECONNRESET') || /ETIMEDOUT/.test(error.message)
}
