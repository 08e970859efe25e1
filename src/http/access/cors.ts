/** Web pages: CORS headers and preflights for the listed origins, 403 for writes from any other page. */
import cors from 'cors'
import { echoed, OjsError } from '../../errors.ts'
import { redactUrls } from '../../logger.ts'
import { type Check, READING, type Step } from '../message/middleware.ts'
import { answerEmpty } from '../message/respond.ts'
import { isAddress } from './host-check.ts'

/** Parses `OJS_CORS_ORIGINS`: exact origins, as browsers send them. Adds a line per mistake. */
export function parseOrigins(text: string, mistakes: string[]): string[] {
  const origins = text.split(',').flatMap((item) => item.trim() || [])
  for (const origin of origins) {
    if (isOrigin(origin)) continue
    mistakes.push(
      origin === '*'
        ? 'OJS_CORS_ORIGINS must name each origin; * would let in every web page (seed 001 §20.3)'
        : `OJS_CORS_ORIGINS: '${redactUrls(origin)}' is not an origin such as ` +
            'https://dash.example.com (without path and user)',
    )
  }
  return origins
}

function isOrigin(text: string): boolean {
  if (!/^https?:\/\/[^*]+$/.test(text) || !URL.canParse(text)) return false
  return new URL(text).origin === text
}

/**
 * Sets the CORS headers of seed 001 §20.2 on every answer, errors included. The last three of
 * `allowedHeaders` are ours: the gateway reads them, and the SDK sends a trace when there is one.
 */
export function shareWith(origins: readonly string[]): Step {
  return cors({
    origin: [...origins],
    methods: 'GET, POST, PUT, DELETE, OPTIONS',
    allowedHeaders:
      'Content-Type, Accept, Authorization, X-Request-Id, OJS-Version, Idempotency-Key, traceparent, tracestate',
    exposedHeaders:
      'X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, OJS-Version, Retry-After, X-OJS-Progress',
    maxAge: 86_400,
    // The answer of `cors` would lack the headers of every answer of ours.
    preflightContinue: true,
  })
}

/** Answers preflights for every path and without a key, because browsers send none with a preflight. */
export function answerPreflight(origins: readonly string[]): Step {
  const listed = new Set(origins)
  return (request, response, next) => {
    const { origin, 'access-control-request-method': wanted } = request.headers
    const isPreflight = request.method === 'OPTIONS' && wanted !== undefined
    if (isPreflight && listed.has(origin ?? '')) answerEmpty(response)
    else next()
  }
}

/**
 * Refuses writes by web pages of other origins. A page cannot read the answer, but it can send a POST without
 * a preflight if its content type is plain or missing. Browsers send the `Origin` of each such request; other
 * programs send none.
 */
export function refuseForeignOrigins(
  origins: readonly string[],
  { trustsNames }: { trustsNames: boolean },
): Check {
  const listed = new Set(origins)
  return (request) => {
    const { origin, host } = request.headers
    const isForeign =
      origin !== undefined &&
      !READING.has(request.method) &&
      !listed.has(origin) &&
      !isSameOrigin(origin, host ?? '', trustsNames)
    if (!isForeign) return
    throw new OjsError(
      'x_forbidden',
      'The web page may not change anything: OJS_CORS_ORIGINS does not list its origin.',
      {
        details: { reason: 'origin', field: 'Origin', received: echoed(origin) },
      },
    )
  }
}

/**
 * Whether a page's origin is this gateway itself. The scheme is not compared, since a proxy may have ended
 * TLS. With `trustsNames` false, a page that points its own name at this address (DNS rebinding) needs
 * nothing else to get in; then only an address or `localhost`, which DNS cannot redirect, counts as the same
 * origin, and any other name has to be listed.
 */
export function isSameOrigin(origin: string, host: string, trustsNames: boolean): boolean {
  if (!URL.canParse(origin)) return false
  const url = new URL(origin)
  return (
    url.host === host.toLowerCase() &&
    (trustsNames || url.hostname === 'localhost' || isAddress(url.hostname))
  )
}
