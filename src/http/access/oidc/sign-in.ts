/** Signing in by the provider, there and back: a page begins it, and the page that is led back to ends it. */
import { OjsError } from '../../../errors.ts'
import type { Logger } from '../../../logger.ts'
import type { Caller } from '../../message/admission.ts'
import type { OidcConfig } from './oidc-config.ts'
import { PENDING_MS, type Pending, Seal } from './pending.ts'
import { callerOf } from './person.ts'
import { Provider } from './provider.ts'

const COOKIE = /(?:^|;\s*)(?:__Host-)?ojs_login=([\w-]{40,4000})(?=;|$)/

export interface SignedIn {
  caller: Caller
  /** When the provider's word ends, on the gateway's clock. */
  endsAt: number
  /** The value of `Set-Cookie` that ends the login. */
  cookie: string
}

export class OidcSignIn {
  readonly #settings: OidcConfig
  readonly #now: () => number
  readonly #logger: Logger
  readonly #provider: Provider
  readonly #seal = new Seal()

  constructor(settings: OidcConfig, logger: Logger, now: () => number) {
    this.#settings = settings
    this.#logger = logger
    this.#now = now
    this.#provider = new Provider(settings, logger, now)
  }

  /** The provider's name for people. */
  get host(): string {
    return this.#provider.host
  }

  /** `page`: the console's address as the browser knows it. `cookie`: the value of `Set-Cookie`. */
  async begin(page: string): Promise<{ url: string; cookie: string }> {
    const redirectUrl = this.#settings.redirectUrl ?? page
    const { url, ...begun } = await this.#provider.begin(redirectUrl)
    const sealed = this.#seal.close({ ...begun, until: this.#now() + PENDING_MS })
    return { url, cookie: loginCookie(sealed, PENDING_MS / 1_000, redirectUrl) }
  }

  /**
   * Throws 401 for an answer to a question that this browser did not ask, or if the provider refused; 403 for
   * somebody without a role here.
   */
  async finish(cookies: string | undefined, callback: string): Promise<SignedIn> {
    const pending = this.#pendingIn(cookies) ?? nothingBegun()
    const claims = await this.#provider.finish(callback, pending)
    const subject = String(claims['sub']).slice(0, 255)
    const caller = callerOf(claims, this.#settings)
    if (caller === undefined) {
      this.#logger.warn({ subject, claim: this.#settings.claim }, 'somebody without a role')
      throw this.#noRole()
    }
    this.#logger.info({ key: caller.name, role: caller.role, subject }, 'signed in')
    const cookie = loginCookie('', 0, pending.redirectUrl)
    return { caller, endsAt: Number(claims['exp']) * 1_000, cookie }
  }

  #pendingIn(cookies = ''): Pending | undefined {
    const sealed = COOKIE.exec(cookies)?.[1]
    return sealed === undefined ? undefined : this.#seal.open(sealed, this.#now())
  }

  #noRole(): OjsError {
    return new OjsError(
      'x_forbidden',
      `${this.host} knows you, but nothing in your '${this.#settings.claim}' has a role here (OJS_OIDC_ROLES).`,
      { details: { reason: 'no_role', claim: this.#settings.claim } },
    )
  }
}

/** Sent by our own pages only: the page that the provider leads back to asks for the session itself. */
function loginCookie(value: string, seconds: number, redirectUrl: string): string {
  const isSecure = redirectUrl.startsWith('https:')
  const name = isSecure ? '__Host-ojs_login' : 'ojs_login'
  const secure = isSecure ? '; Secure' : ''
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`
}

function nothingBegun(): never {
  throw new OjsError(
    'x_unauthenticated',
    'This sign-in was not begun in this browser, or too long ago, or the gateway has started anew since. Sign in again.',
    { details: { reason: 'no_login' } },
  )
}
