/** Sessions of the console: a cookie that stands for a caller, for at most twelve hours, in this process. */
import { hash, randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Caller } from '../message/admission.ts'
import { READING } from '../message/middleware.ts'
import { isSameOrigin } from './cors.ts'

const LASTS_MS = 12 * 3_600_000
/** Some 300 bytes each. Beyond it, the oldest one ends. */
const MAX_SESSIONS = 1_000
const TOKEN_BYTES = 32
const COOKIE = /(?:^|;\s*)(?:__Host-)?ojs_session=([\w-]{43})(?=;|$)/

export interface Session {
  readonly key: Caller
  /** On the clock of `now`. */
  readonly endsAt: number
}

/**
 * Kept in memory, by the hash of their token: a restart ends them, and with it goes every key that the new
 * configuration lacks. A cookie counts only in requests of the gateway's own pages.
 */
export class Sessions {
  readonly #now: () => number
  /** By the hash of the token, oldest first. */
  readonly #sessions = new Map<string, Session>()

  constructor(now: () => number) {
    this.#now = now
  }

  get size(): number {
    return this.#sessions.size
  }

  /** `until`: ends then at the latest. */
  begin(key: Caller, until = Number.POSITIVE_INFINITY): { token: string; endsAt: number } {
    const oldest = this.#sessions.keys().next().value
    if (oldest !== undefined && this.#sessions.size >= MAX_SESSIONS) this.#sessions.delete(oldest)
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    const endsAt = Math.min(this.#now() + LASTS_MS, until)
    this.#sessions.set(nameOf(token), { key, endsAt })
    return { token, endsAt }
  }

  /** The session that the request's cookie names, if the request comes from a page of ours. */
  of(request: Pick<IncomingMessage, 'headers' | 'method'>): Session | undefined {
    const token = tokenIn(request)
    if (token === undefined || !isOwnPage(request)) return undefined
    const name = nameOf(token)
    const session = this.#sessions.get(name)
    if (session === undefined || session.endsAt > this.#now()) return session
    this.#sessions.delete(name)
    return undefined
  }

  end(request: Pick<IncomingMessage, 'headers'>): void {
    const token = tokenIn(request)
    if (token !== undefined) this.#sessions.delete(nameOf(token))
  }
}

/** The value of `Set-Cookie`. With `isSecure`, browsers keep it from every other host and from plain HTTP. */
export function sessionCookie(token: string, isSecure: boolean): string {
  return cookie(token, LASTS_MS / 1_000, isSecure)
}

export function noSessionCookie(isSecure: boolean): string {
  return cookie('', 0, isSecure)
}

function cookie(value: string, seconds: number, isSecure: boolean): string {
  const name = isSecure ? '__Host-ojs_session' : 'ojs_session'
  const secure = isSecure ? '; Secure' : ''
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`
}

function tokenIn({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  return COOKIE.exec(headers.cookie ?? '')?.[1]
}

/** Not the key of the map: who reads the memory's names learns no token. */
function nameOf(token: string): string {
  return hash('sha256', token, 'base64url')
}

/**
 * `SameSite` lets in pages of other ports and subdomains. A write has the `Origin` of its page; a read has
 * `Sec-Fetch-Site`, except in old browsers, to which CORS shows no answer.
 */
export function isOwnPage({
  headers,
  method = '',
}: Pick<IncomingMessage, 'headers' | 'method'>): boolean {
  const { origin, host = '' } = headers
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false
  if (origin === undefined) return READING.has(method)
  return isSameOrigin(origin, host, true)
}
