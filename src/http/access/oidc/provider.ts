/** The provider itself: where to sign in, and what it says of who came back. */
import type { Configuration } from 'openid-client'
import { OjsError } from '../../../errors.ts'
import type { Logger } from '../../../logger.ts'
import type { OidcConfig } from './oidc-config.ts'
import type { Pending } from './pending.ts'
import { type Claims, claimIn } from './person.ts'

/** Loaded at the first sign-in: most gateways need none of it. */
const load = () => import('openid-client')
type Client = Awaited<ReturnType<typeof load>>

const TIMEOUT_S = 10
/** Endpoints move now and then. Keys of signatures are asked for when they are needed. */
const KNOWN_FOR_MS = 3_600_000

interface Known {
  config: Configuration
  at: number
}

/** Its failures are 503, with the reason in the log only: a provider may repeat secrets in its errors. */
export class Provider {
  /** For people. */
  readonly host: string
  readonly #settings: OidcConfig
  readonly #logger: Logger
  readonly #now: () => number
  #known: Promise<Known> | undefined

  constructor(settings: OidcConfig, logger: Logger, now: () => number) {
    this.host = new URL(settings.issuer).host
    this.#settings = settings
    this.#logger = logger
    this.#now = now
  }

  /** Authorization code with PKCE, state and nonce. */
  async begin(redirectUrl: string): Promise<{ url: string } & Omit<Pending, 'until'>> {
    return this.#asked(async (client, config) => {
      const verifier = client.randomPKCECodeVerifier()
      const [state, nonce] = [client.randomState(), client.randomNonce()]
      const url = client.buildAuthorizationUrl(config, {
        redirect_uri: redirectUrl,
        scope: this.#settings.scope,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        state,
        nonce,
      })
      return { url: url.href, state, nonce, verifier, redirectUrl }
    })
  }

  /**
   * `callback`: the query that the provider added to the console's address. Throws 401 if the provider refused,
   * 503 if its answer is not what it must be.
   */
  async finish(callback: string, pending: Pending): Promise<Claims> {
    return this.#asked(async (client, config) => {
      const url = new URL(pending.redirectUrl)
      url.search = callback
      const tokens = await client.authorizationCodeGrant(config, url, {
        pkceCodeVerifier: pending.verifier,
        expectedState: pending.state,
        expectedNonce: pending.nonce,
        idTokenExpected: true,
      })
      const claims = tokens.claims() ?? noIdToken()
      if (!this.#needsMore(claims, config)) return claims
      const more = await client.fetchUserInfo(config, tokens.access_token, claims.sub)
      return { ...more, ...claims }
    })
  }

  /** Some providers tell names and groups in their ID tokens, others only when they are asked. */
  #needsMore(claims: Claims, config: Configuration): boolean {
    if (config.serverMetadata().userinfo_endpoint === undefined) return false
    const { claim, nameClaim } = this.#settings
    return [claim, nameClaim].some((name) => claimIn(claims, name) === undefined)
  }

  async #asked<T>(ask: (client: Client, config: Configuration) => Promise<T>): Promise<T> {
    const client = await load()
    try {
      return await ask(client, (await this.#knownTo(client)).config)
    } catch (error) {
      if (error instanceof client.AuthorizationResponseError) throw refused(this.host, error.error)
      this.#logger.warn(
        { reason: reasonOf(client, error), issuer: this.#settings.issuer },
        'OpenID Connect sign-in failed',
      )
      throw new OjsError(
        'backend_error',
        `${this.host} did not answer as it should; the gateway's log says why.`,
        { status: 503, details: { reason: 'provider' } },
      )
    }
  }

  /** One question at a time; a failed one is not remembered. */
  async #knownTo(client: Client): Promise<Known> {
    const known = await this.#known?.catch(() => undefined)
    if (known !== undefined && this.#now() - known.at < KNOWN_FOR_MS) return known
    const asking = this.#discover(client)
    this.#known = asking
    return asking
  }

  async #discover(client: Client): Promise<Known> {
    const { issuer, clientId, clientSecret } = this.#settings
    const isPlain = issuer.startsWith('http:')
    const config = await client.discovery(
      new URL(issuer),
      clientId,
      undefined,
      clientSecret === null ? client.None() : secretAuth(client, clientSecret),
      {
        timeout: TIMEOUT_S,
        execute: [
          // Also where TLS would do: a proxy may have ended it.
          client.enableNonRepudiationChecks,
          ...(isPlain ? [client.allowInsecureRequests] : []),
        ],
      },
    )
    return { config, at: this.#now() }
  }
}

/** In the header, as is usual, unless the provider only takes it in the body. */
function secretAuth(client: Client, secret: string): ReturnType<Client['None']> {
  const basic = client.ClientSecretBasic(secret)
  const post = client.ClientSecretPost(secret)
  return (server, ...rest) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const auth = methods.includes('client_secret_basic') ? basic : post
    auth(server, ...rest)
  }
}

function noIdToken(): never {
  throw new Error('the answer has no ID token')
}

/** RFC 6749 §4.1.2.1. */
const OAUTH_ERROR = /^[a-z_]{1,40}$/

function refused(host: string, error: string): OjsError {
  const said = OAUTH_ERROR.test(error) ? error : 'an error'
  return new OjsError('x_unauthenticated', `${host} has not let you in: ${said}.`, {
    details: { reason: 'refused_by_provider', provider_error: said },
  })
}

/** Codes and the library's own words: neither bodies nor parameters of requests. */
function reasonOf(client: Client, error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  if (error instanceof client.WWWAuthenticateChallengeError) {
    const said = error.cause.map(({ parameters }) => parameters.error).join()
    return `it knows another client id or secret: ${said}`
  }
  const { code, error: said } = error as { code?: unknown; error?: unknown }
  const cause = error.cause instanceof Error ? error.cause.message : undefined
  return [error.message, code, said, cause].filter((each) => typeof each === 'string').join(': ')
}
