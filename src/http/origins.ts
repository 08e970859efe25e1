import cors from 'cors'
import { echoed, OjsError } from '../errors.ts'
import { redactUrls } from '../logger.ts'
import { answerEmpty } from './answer.ts'
import { isAddress } from './hosts.ts'
import { type Check, READING, type Step } from './pipeline.ts'

/** `OJS_CORS_ORIGINS`: exact origins, as browsers send them. Adds a line for each mistake. */
export function parseOrigins(text: string, mistakes: string[]): string[] {
  const origins = text.split(',').flatMap((item) => item.trim() || [])
  for (const origin of origins) {
    if (isOrigin(origin)) continue
    mistakes.push(
      origin === '*'
        ? 'OJS_CORS_ORIGINS must name each origin; * would let in every web page (seed 001 §20.3)'
        : `OJS_CORS_ORIGINS: '${redactUrls(origin)}' is no origin such as https://dash.example.com ` +
            '(no path, no user)',
    )
  }
  return origins
}

function isOrigin(text: string): boolean {
  if (!/^https?:\/\/[^*]+$/.test(text) || !URL.canParse(text)) return false
  return new URL(text).origin === text
}

/**
 * The headers of seed 001 §20.2 on every answer, errors included. The last three of those that a page
 * may send are not in its list: the gateway reads them, and the SDK sends a trace where there is one.
 */
export function shareWith(origins: readonly string[]): Step {
  return cors({
    origin: [...origins],
    methods: 'GET, POST, DELETE, OPTIONS',
    allowedHeaders:
      'Content-Type, Accept, Authorization, X-Request-Id, OJS-Version, Idempotency-Key, traceparent, tracestate',
    exposedHeaders:
      'X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, OJS-Version, Retry-After',
    maxAge: 86_400,
    // Its own answer would lack what every answer of ours has.
    preflightContinue: true,
  })
}

/** Whatever the path, and without a key: browsers send none with a preflight. */
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
 * What a web page may not read, it could still write: a POST with a plain content type, or none,
 * needs no preflight. Browsers name the origin of each such request; programs have none.
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
    throw new OjsError('x_forbidden', 'Pages of this origin may not change anything here.', {
      details: { reason: 'origin', field: 'Origin', received: echoed(origin) },
    })
  }
}

/**
 * The scheme is not compared: a proxy may have ended TLS. `trustsNames`: false where a page whose
 * name was pointed at this address (DNS rebinding) needs nothing else to get in; then only what
 * DNS has no say in is the same origin, and any other name is to be listed.
 */
function isSameOrigin(origin: string, host: string, trustsNames: boolean): boolean {
  if (!URL.canParse(origin)) return false
  const url = new URL(origin)
  return (
    url.host === host.toLowerCase() &&
    (trustsNames || url.hostname === 'localhost' || isAddress(url.hostname))
  )
}
