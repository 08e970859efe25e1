import { redactUrls } from '../logger.ts'
import { virtualHostOf } from './cluster-urls.ts'

/** What an operator may read of it: never a password. */
export function describeError(error: unknown): string {
  // Node.js, of a name with several addresses: it has no message of its own.
  if (error instanceof AggregateError) return describeError(error.errors[0] ?? error.name)
  return redactUrls(error instanceof Error ? error.message || error.name : String(error))
}

/** amqplib drops the words of a broker that refuses after the login: it means the virtual host. */
export function whyNotOpen(error: unknown, url: URL): string {
  const text = describeError(error)
  if (isOfUnknownAuthority(error)) return `${text}; NODE_EXTRA_CA_CERTS names a CA of your own`
  if (!text.startsWith('Expected ConnectionOpenOk; got <ConnectionClose')) return text
  return `RabbitMQ refused virtual host '${virtualHostOf(url)}': missing, not for this user, or at its limit`
}

/** As OpenSSL says it of a certificate that nobody whom Node.js knows has signed. */
function isOfUnknownAuthority(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? `${error.code}` : ''
  return /^(SELF_SIGNED_CERT|DEPTH_ZERO_SELF|UNABLE_TO_(VERIFY_LEAF|GET_ISSUER))/.test(code)
}

/** No TCP connection came about (as opposed to a broker that answered and refused). */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? error.code : undefined
  return (typeof code === 'string' && code !== 'ECONNRESET') || /ETIMEDOUT/.test(error.message)
}
