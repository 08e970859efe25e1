/** Sign-in and -out of the console: a key becomes a cookie; and what the caller may do. */
import type { Request, Response } from 'express'
import { echoed, OjsError } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import { parseSession } from '../../schemas/requests/session.ts'
import { type ApiKey, identify } from '../access/api-keys.ts'
import { isSameOrigin } from '../access/cors.ts'
import { callerOfAddress, RequestLimiter } from '../access/request-limiter.ts'
import { isServed } from '../access/roles.ts'
import { noSessionCookie, sessionCookie } from '../access/sessions.ts'
import type { Caller } from '../message/admission.ts'
import { readJson } from '../message/body.ts'
import { answer, answerEmpty } from '../message/respond.ts'
import { BEGIN_SESSION, END_SESSION, GET_SESSION } from '../openapi/session.ts'
import type { Endpoint } from '../route.ts'
import type { Door, SignIn } from './route-deps.ts'

const PATH = '/ojs/v1/session'
const MAX_BODY_BYTES = 4_096
/** Wrong keys of one address. */
const TRIES = { limit: 10, windowMs: 60_000 }
const MAX_ADDRESSES = 10_000

export function sessionRoutes({ deps, signIn }: Door): Endpoint[] {
  const tries = new RequestLimiter(TRIES, MAX_ADDRESSES)
  return [
    {
      method: 'GET',
      path: PATH,
      about: GET_SESSION,
      access: 'anybody',
      handle(request, response) {
        const { key } = request.admission
        send(response, 200, sessionOf(signIn, key, signIn.sessions.of(request)?.endsAt))
      },
    },
    {
      method: 'POST',
      path: PATH,
      about: BEGIN_SESSION,
      access: 'anybody',
      async handle(request, response) {
        requireOwnPage(request)
        const { key } = parseSession(await readJson(request, response, MAX_BODY_BYTES))
        if (signIn.keys.length === 0) return send(response, 200, sessionOf(signIn))
        const found = requireKnown(signIn, key, request, { tries, now: deps.clock.now() })
        // For those who read later who signed in.
        request.admission = { ...request.admission, key: found }
        const { token, endsAt } = signIn.sessions.begin(found)
        const cookie = sessionCookie(token, isSecure(signIn, request))
        send(response, 201, sessionOf(signIn, found, endsAt), 'Set-Cookie', cookie)
      },
    },
    {
      method: 'DELETE',
      path: PATH,
      about: END_SESSION,
      access: 'anybody',
      handle(request, response) {
        requireOwnPage(request)
        signIn.sessions.end(request)
        answerEmpty(response, 'Set-Cookie', noSessionCookie(isSecure(signIn, request)))
      },
    },
  ]
}

/** Never kept by a cache: the next caller may be another. */
function send(response: Response, status: number, body: object, ...extra: string[]): void {
  answer(response, status, JSON.stringify(body), 'Cache-Control', 'no-store', ...extra)
}

function sessionOf(signIn: SignIn, key?: Caller, endsAt?: number): object {
  const needsKey = signIn.keys.length > 0
  const isSignedIn = !needsKey || key !== undefined
  const usable = signIn.endpoints().filter((endpoint) => mayUse(endpoint, needsKey, key))
  return {
    needs_key: needsKey,
    signed_in: isSignedIn,
    ...(!needsKey && { role: 'admin' }),
    ...(key !== undefined && { name: key.name, role: key.role }),
    ...(key?.queues !== undefined && { queues: key.queues }),
    ...(endsAt !== undefined && { expires_at: timestamp(endsAt) }),
    ...(isSignedIn && linksOf(signIn)),
    operations: usable.map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`),
    version: signIn.version,
  }
}

function linksOf({ links: { traceUrl, codecUrl } }: SignIn): object {
  return {
    ...(traceUrl !== null && { trace_url: traceUrl }),
    ...(codecUrl !== null && { codec_url: codecUrl }),
  }
}

function mayUse({ access = [], scoping }: Endpoint, needsKey: boolean, key?: Caller): boolean {
  if (!needsKey || access === 'anybody') return true
  if (key === undefined || !isServed(key, access)) return false
  return key.queues === undefined || scoping !== undefined
}

interface Limit {
  tries: RequestLimiter
  now: number
}

/** Counts the try before the key is looked at, and forgets it when the key is known. */
function requireKnown(signIn: SignIn, key: string, request: Request, limit: Limit): ApiKey {
  const { tries, now } = limit
  const caller = callerOfAddress(request.socket.remoteAddress ?? '')
  const standing = tries.take(caller, now)
  if (standing.isOver) throw tooManyTries(Math.ceil((standing.resetAt - now) / 1_000))
  const found = identify(signIn.keys, `Bearer ${key.trim()}`)
  if (typeof found === 'string') {
    throw new OjsError('x_unauthenticated', 'The API key is not known to this gateway.', {
      details: { reason: 'invalid_token', field: 'key' },
    })
  }
  tries.giveBack(caller, standing, now)
  return found
}

function tooManyTries(seconds: number): OjsError {
  return new OjsError('rate_limited', `Too many wrong keys. Try again in ${seconds} s.`, {
    details: { limit: TRIES.limit, window_seconds: TRIES.windowMs / 1_000 },
    retryAfterSeconds: seconds,
  })
}

/** Origins of `OJS_CORS_ORIGINS` bring their keys themselves. Programs send no `Origin`. */
function requireOwnPage({ headers: { origin, host = '' } }: Request): void {
  if (origin === undefined || isSameOrigin(origin, host, true)) return
  throw new OjsError('x_forbidden', 'Only pages of this gateway may begin or end a session.', {
    details: { reason: 'origin', field: 'Origin', received: echoed(origin) },
  })
}

/** Behind a proxy that ends TLS, the page's own origin tells. */
function isSecure({ isTls }: SignIn, { headers }: Request): boolean {
  return isTls || (headers.origin ?? '').startsWith('https://')
}
