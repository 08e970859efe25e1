import type { OjsError } from '../errors.ts'

/**
 * The headers of an error: `Retry-After` on every 429 and 503 (seed 001 §18.2), `WWW-Authenticate` on every
 * 401 (RFC 9110 §15.5.2, RFC 6750 §3).
 */
export function errorHeaders(error: OjsError): string[] {
  if (error.status === 401) return ['WWW-Authenticate', challenge(error)]
  const isTemporary = error.status === 429 || error.status === 503
  const seconds = error.retryAfterSeconds ?? (isTemporary ? 1 : undefined)
  return seconds === undefined ? [] : ['Retry-After', String(seconds)]
}

function challenge({ details }: OjsError): string {
  const isUnknown = details?.['reason'] === 'invalid_token'
  return isUnknown ? 'Bearer realm="ojs", error="invalid_token"' : 'Bearer realm="ojs"'
}
