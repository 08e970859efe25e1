/** Sign-in and -out of the console: a key, or a provider's word, becomes a cookie; and what the caller may do. */
import type { Request, Response } from 'express'
import { echoed, invalidField, OjsError } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import { parseSession, type SessionRequest } from '../../schemas/requests/session.ts'
import { identify } from '../access/api-keys.ts'
import { isSameOrigin } from '../access/cors.ts'
import type { OidcSignIn } from '../access/oidc/sign-in.ts'
import { callerOfAddress, RequestLimiter } from '../access/request-limiter.ts'
import { isServed } from '../access/roles.ts'
import { isOwnPage, noSessionCookie, sessionCookie } from '../access/sessions.ts'
import type { Caller } from '../message/admission.ts'
import { readJson } from '../message/body.ts'
import { parameter } from '../message/query.ts'
import { answer, answerEmpty } from '../message/respond.ts'
import { BEGIN_LOGIN, BEGIN_SESSION, END_SESSION, GET_SESSION } from '../openapi/session.ts'
import type { Endpoint } from '../route.ts'
import type { Door, SignIn } from './route-deps.ts'

const PATH = '/ojs/v1/session'
const MAX_BODY_BYTES = 16_384
const MAX_PAGE = 1_000
/** Failed ones of one address. */
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
        const given = parseSession(await readJson(request, response, MAX_BODY_BYTES))
        if (signIn.keys.length === 0) return send(response, 200, sessionOf(signIn))
        const { caller, until, cookies } = await withinTries(
          { tries, now: deps.clock.now() },
          request,
          () => who(signIn, given, request),
        )
        // For those who read later who signed in.
        request.admission = { ...request.admission, key: caller }
        const { token, endsAt } = signIn.sessions.begin(caller, until)
        cookies.push(sessionCookie(token, isSecure(signIn, request)))
        const headers = cookies.flatMap((cookie) => ['Set-Cookie', cookie])
        send(response, 201, sessionOf(signIn, caller, endsAt), ...headers)
      },
    },
    {
      method: 'GET',
      path: `${PATH}/login`,
      about: BEGIN_LOGIN,
      access: 'anybody',
      async handle(request, response) {
        if (!isOwnPage(request)) throw foreignPage(request)
        const { url, cookie } = await providerOf(signIn).begin(pageOf(request))
        send(response, 200, { url }, 'Set-Cookie', cookie)
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
    ...(signIn.oidc !== undefined && { provider: signIn.oidc.host }),
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

/** Counts the try before anything is looked at, and forgets it when it was right. */
async function withinTries<T>(
  { tries, now }: Limit,
  request: Request,
  ask: () => T | Promise<T>,
): Promise<T> {
  const caller = callerOfAddress(request.socket.remoteAddress ?? '')
  const standing = tries.take(caller, now)
  if (standing.isOver) throw tooManyTries(Math.ceil((standing.resetAt - now) / 1_000))
  const found = await ask()
  tries.giveBack(caller, standing, now)
  return found
}

interface Found {
  caller: Caller
  until?: number
  /** To be set beside that of the session. */
  cookies: string[]
}

async function who(signIn: SignIn, given: SessionRequest, request: Request): Promise<Found> {
  if ('key' in given) return { caller: knownKey(signIn, given.key), cookies: [] }
  const { cookie } = request.headers
  const signedIn = await providerOf(signIn).finish(cookie, given.callback)
  return { caller: signedIn.caller, until: signedIn.endsAt, cookies: [signedIn.cookie] }
}

function knownKey(signIn: SignIn, key: string): Caller {
  const found = identify(signIn.keys, `Bearer ${key.trim()}`)
  if (typeof found !== 'string') return found
  throw new OjsError('x_unauthenticated', 'The API key is not known to this gateway.', {
    details: { reason: 'invalid_token', field: 'key' },
  })
}

function providerOf({ oidc }: SignIn): OidcSignIn {
  if (oidc !== undefined) return oidc
  throw new OjsError(
    'not_found',
    'This gateway has no OpenID Connect provider (OJS_OIDC_ISSUER).',
    {
      details: { resource_type: 'route', resource_id: `${PATH}/login` },
    },
  )
}

/** Where the provider shall lead back to. It knows the addresses that it may lead to. */
function pageOf(request: Request): string {
  const page = (parameter(request, 'page') ?? '').slice(0, MAX_PAGE)
  const url = URL.canParse(page) ? new URL(page) : undefined
  const isOurs = url?.host === request.headers.host?.toLowerCase()
  if (isOurs && url?.href === page && /^https?:\/\/[^@?#]+\/console\/$/.test(page)) return page
  throw invalidField(
    'page',
    "The 'page' parameter must be the console's own address, which ends in /console/.",
    { received: echoed(page) },
  )
}

function tooManyTries(seconds: number): OjsError {
  return new OjsError('rate_limited', `Too many failed sign-ins. Try again in ${seconds} s.`, {
    details: { limit: TRIES.limit, window_seconds: TRIES.windowMs / 1_000 },
    retryAfterSeconds: seconds,
  })
}

/** Origins of `OJS_CORS_ORIGINS` bring their keys themselves. Programs send no `Origin`. */
function requireOwnPage(request: Request): void {
  const { origin, host = '' } = request.headers
  if (origin !== undefined && !isSameOrigin(origin, host, true)) throw foreignPage(request)
}

function foreignPage({ headers: { origin } }: Request): OjsError {
  return new OjsError('x_forbidden', 'Only pages of this gateway may begin or end a session.', {
    details: {
      reason: 'origin',
      field: 'Origin',
      ...(origin !== undefined && { received: echoed(origin) }),
    },
  })
}

/** Behind a proxy that ends TLS, the page's own origin tells. */
function isSecure({ isTls }: SignIn, { headers }: Request): boolean {
  return isTls || (headers.origin ?? '').startsWith('https://')
}
